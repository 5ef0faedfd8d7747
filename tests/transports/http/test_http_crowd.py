"""Many clients and many tools: everybody gets their own, and a call costs the same with many tools."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext
from mcp_bridge._server.tools import methods as tools_module
from tests.kits.constants import TIMEOUT
from tests.kits.http.http_hosting import HTTP_WAYS, HttpWay, build_registry, make_entry, serve_http

CROWD = 20


@pytest.mark.parametrize("way", [HTTP_WAYS[1], HTTP_WAYS[2]], ids=lambda way: f"{way.transport}-{way.mode}")
async def test_twenty_concurrent_clients_receive_their_own_progress_and_results(way: HttpWay) -> None:
    arrived, everyone = 0, anyio.Event()

    async def echo(data: Any, ctx: CallContext) -> str:
        nonlocal arrived
        arrived += 1
        if arrived == CROWD:
            everyone.set()
        # Every call is in flight before the first one reports progress.
        await everyone.wait()
        for step in range(3):
            await ctx.report_progress(step, message=data["who"])
        return str(data["who"])

    progress_texts: dict[str, list[str | None]] = {}
    answers: dict[str, str] = {}

    async def visit(base: str, who: str) -> None:
        mine = progress_texts.setdefault(who, [])

        async def record_progress(progress: float, total: float | None, message: str | None) -> None:
            mine.append(message)

        async with way.connect(base) as client:
            result = await client.call_tool("echo", {"who": who}, progress_callback=record_progress)
            answers[who] = result.content[0].text  # type: ignore[union-attr]

    async with serve_http(build_registry(make_entry("echo", echo))) as (base, app):
        with anyio.fail_after(3 * TIMEOUT):
            async with anyio.create_task_group() as tasks:
                for number in range(CROWD):
                    tasks.start_soon(visit, base, f"client {number}")
        assert await app.counter.wait_until_idle(TIMEOUT)
    assert answers == {who: who for who in progress_texts}
    assert progress_texts == {who: [who] * 3 for who in answers}
    assert len(answers) == CROWD


async def test_a_call_does_not_walk_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered_names: list[str] = []
    to_wire = tools_module.to_wire

    def counted_to_wire(definition: Any) -> Any:
        rendered_names.append(definition.name)
        return to_wire(definition)

    monkeypatch.setattr(tools_module, "to_wire", counted_to_wire)
    registry = build_registry(*(make_entry(f"tool_{number}", lambda data: data["x"]) for number in range(1000)))
    async with serve_http(registry) as (base, _), HTTP_WAYS[1].connect(base) as client:
        await client.list_tools()
        del rendered_names[:]
        for number in range(5):
            result = await client.session.call_tool("tool_3", {"x": str(number)})
            assert result.content[0].text == str(number)  # type: ignore[union-attr]
        assert rendered_names == []
        registry.register(make_entry("new"))
        await client.session.call_tool("new", {})
        # A change converts only the changed tool, not the whole list.
        assert rendered_names == ["new"]

"""Results from a worker are the same as from the process of the bridge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_bridge.testing import connect
from tests.kits.constants import EVERY_ERA
from tests.kits.isolation import isolated_offers
from tests.kits.isolation.isolation_kit import build_bridge, dump_result, run_in_both_modes

RESOURCES = ["text", "json", "bytes", "several", "broken", "failing", "items/some%20one", "none"]


async def attempt(call: Any) -> Any:
    """Return the result or the error of a request, without varying parts."""
    try:
        return dump_result(await call)
    except Exception as error:
        return dump_result([type(error).__name__, str(error)])


@pytest.mark.parametrize(
    ("name", "mode"), [("answers", "legacy"), ("answers", "2026-07-28"), ("answers_async", "2026-07-28")]
)
async def test_isolated_tools_have_the_same_results(name: str, mode: str, tmp_path: Path) -> None:
    async def do(client: Any) -> Any:
        return {key: await attempt(client.call_tool(name, {"kind": key})) for key in isolated_offers.list_results()}

    local, remote = await run_in_both_modes(tmp_path, do, lambda: {"mode": mode})
    assert {key: remote[key] for key in local if remote[key] != local[key]} == {}
    assert len(local) > 60
    assert "s3cret" not in str(remote)


async def test_isolated_tools_have_the_same_definitions(tmp_path: Path) -> None:
    async def do(client: Any) -> Any:
        questions = client.list_tools, client.list_resources, client.list_resource_templates, client.list_prompts
        return [dump_result(await ask()) for ask in questions]

    local, remote = await run_in_both_modes(tmp_path, do)
    assert remote == local


@EVERY_ERA
async def test_isolated_resources_and_prompts_are_the_same(mode: str, tmp_path: Path) -> None:
    async def do(client: Any) -> Any:
        return [
            *[await attempt(client.read_resource(f"test://{path}")) for path in RESOURCES],
            await attempt(client.get_prompt("greets", {"name": "Ada"})),
            await attempt(client.get_prompt("greets", {"name": "Ada", "tone": "stern"})),
            await attempt(client.get_prompt("greets", {})),
            await attempt(client.get_prompt("fails", {"name": "Ada"})),
            await attempt(client.get_prompt("wrong_role", {})),
        ]

    local, remote = await run_in_both_modes(tmp_path, do, lambda: {"mode": mode})
    for mine, theirs in zip(local, remote, strict=True):
        assert theirs == mine


async def test_results_of_isolated_tools_are_validated(tmp_path: Path) -> None:
    async def do(client: Any) -> Any:
        return [await attempt(client.call_tool("promises", {"kept": is_valid})) for is_valid in (True, False)]

    local, remote = await run_in_both_modes(tmp_path, do)
    assert remote == local
    assert [result["isError"] for result in remote] == [False, True]


async def test_a_tool_that_cancels_its_task_has_a_result(tmp_path: Path) -> None:
    async def do(client: Any) -> Any:
        return [await attempt(client.call_tool("cancels_itself", {})) for _ in range(2)]

    local, remote = await run_in_both_modes(tmp_path, do)
    assert remote == local


async def test_unexpected_errors_are_only_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with connect(build_bridge(tmp_path, "process")) as client:
        for key in ("ValueError", "group", "Odd error"):
            caplog.clear()
            result = await client.call_tool("answers", {"kind": key})
            assert "internal error (reference" in result.content[0].text  # type: ignore[union-attr]
            assert "s3cret" not in str(dump_result(result))
            # The log has the traceback of the worker.
            assert "isolated_offers.py" in caplog.text
            assert key == "Odd error" or "s3cret text" in caplog.text


async def test_expose_errors_applies_to_isolated_tools(tmp_path: Path) -> None:
    async def do(client: Any) -> Any:
        return [await attempt(client.call_tool("answers", {"kind": key})) for key in ("ValueError", "group")]

    local, remote = await run_in_both_modes(tmp_path, do, expose_errors=True)
    assert remote == local
    assert "ValueError: s3cret text" in str(remote)


COMPLETING = """
from mcp_bridge import prompt, resource

def places(value):
    return [place for place in ("Bern", "Berlin", "Rome") if place.startswith(value)]

async def streets(value, known):
    return [f"{known.get('city')} {value}1", f"{known.get('city')} {value}2"]

def breaks(value):
    raise ValueError("s3cret")

@prompt(completions={"city": places, "street": streets, "kind": ["house", "hut"], "other": breaks})
def letter(city: str, street: str = "", kind: str = "", other: str = "") -> str:
    return city

@resource("test://{city}/{street}", completions={"city": places, "street": streets})
def house(city: str, street: str) -> str:
    return city
"""


async def test_completions_of_isolated_prompts_are_the_same(tmp_path: Path) -> None:
    import mcp_types as types

    places: list[Any] = [
        types.PromptReference(name="letter"),
        types.ResourceTemplateReference(uri="test://{city}/{street}"),
    ]
    questions = [("city", "Ber", None), ("street", "x", {"city": "Bern"}), ("kind", "h", None), ("other", "", None)]

    async def do(client: Any) -> Any:
        return [
            await attempt(client.complete(place, {"name": name, "value": value}, arguments))
            for place in places
            for name, value, arguments in questions
        ]

    local, remote = await run_in_both_modes(tmp_path, do, tools=COMPLETING)
    assert remote == local
    assert "Berlin" in str(remote)
    assert "Bern x2" in str(remote)
    assert "s3cret" not in str(remote)

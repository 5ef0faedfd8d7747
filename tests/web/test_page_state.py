"""The state of the page: calls, clients, settings, and findings about the tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._settings import load
from mcp_bridge._web import history as histories
from mcp_bridge._web.history import CallHistory
from mcp_bridge.middleware import Pipeline, Stage
from tests.kits.http.http_hosting import build_registry, make_entry
from tests.kits.web.web_kit import LEGACY, MODERN, TOKEN, serve_page


async def test_a_call_is_listed_with_its_arguments_and_its_result() -> None:
    async with (
        serve_page(build_registry(make_entry("echo", lambda data: {"got": data}))) as server,
        server.read() as page,
    ):
        await page.call_tool("echo", text="hello")
        state = await page.read_state()
    (call,) = state["calls"]
    assert (call["tool"], call["kind"], call["state"], call["code"]) == ("echo", "tool", "ok", None)
    assert (call["arguments"], call["result"]) == ({"text": "hello"}, {"got": {"text": "hello"}})
    assert call["duration_ms"] >= 0
    (client,) = state["clients"]
    assert (client["id"], client["name"], client["protocol"]) == (call["client"], "a test", "2026-07-28")
    assert state["latency"]["echo"]["count"] == 1


async def test_a_failed_call_is_listed_with_its_code() -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("broken")

    async with serve_page(build_registry(make_entry("fail", fail))) as server, server.read() as page:
        await page.call_tool("fail")
        state = await page.read_state()
    (call,) = state["calls"]
    assert (call["state"], call["code"]) == ("error", "internal_error")
    assert "reference" in call["result"]["error"]
    assert state["latency"]["fail"]["errors"] == 1


async def test_a_running_call_is_listed_with_its_progress_and_a_cancelled_one_as_cancelled() -> None:
    beginning = anyio.Event()

    async def work(data: Any, ctx: CallContext) -> None:
        await ctx.report_progress(1, 4, "first step")
        beginning.set()
        await anyio.sleep_forever()

    async with serve_page(build_registry(make_entry("work", work))) as server, server.read() as page:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(page.call_tool, "work")
            await beginning.wait()
            (call,) = (await page.read_state())["calls"]
            assert (call["state"], call["duration_ms"], call["result"]) == ("running", None, None)
            assert call["progress"] == {"progress": 1, "total": 4, "message": "first step"}
            tasks.cancel_scope.cancel()
        state = await page.wait_for_state(lambda state: state["calls"][0]["state"] != "running")
    assert state["calls"][0]["state"] == "cancelled"


async def test_secrets_are_redacted_everywhere() -> None:
    def reveal(data: Any) -> Any:
        return {"token": "short", "text": f"the key is very-secret-key and {data['password']}"}

    bridge = Bridge(build_registry(make_entry("reveal", reveal)))
    bridge.hide_secrets(["very-secret-key"])
    async with serve_page(bridge) as server, server.read() as page, page.follow():
        await page.call_tool("reveal", password="hunter22", note="very-secret-key")
        event = await page.wait_for("call", lambda call: call["state"] == "ok")
        text = (await page.http.get("/page/state")).text
    assert event["arguments"] == {"password": "[secret]", "note": "[secret]"}
    assert event["result"] == {"token": "[secret]", "text": "the key is [secret] and [secret]"}
    for secret in ("hunter22", "very-secret-key", "short"):
        assert secret not in text


async def test_large_values_are_truncated() -> None:
    async with (
        serve_page(build_registry(make_entry("big", lambda data: ["x" * 100_000] * 300))) as server,
        server.read() as page,
    ):
        await page.call_tool("big", text="y" * 10_000)
        (call,) = (await page.read_state())["calls"]
    # Together, the arguments exceed the limit of a call.
    assert call["arguments"] == "(no longer kept)"
    async with (
        serve_page(build_registry(make_entry("big", lambda data: ["x" * 4500] * 104))) as server,
        server.read() as page,
    ):
        await page.call_tool("big", text="y" * 10_000)
        (call,) = (await page.read_state())["calls"]
    assert call["arguments"]["text"].endswith("… (10000 characters)")
    assert call["result"][0].endswith("… (4500 characters)")
    assert call["result"][-1] == "… 4 more"


async def run_calls(history: CallHistory, count: int, output: Any) -> None:
    """Report calls with this output to a history."""
    ctx = RunningCall()
    for number in range(count):
        record = history.begin_call(ToolCall(id=str(number), name="tool", arguments={"number": number}), ctx)
        record.end(ToolResult(success=True, output=output))


async def test_the_memory_of_past_calls_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(histories, "MAX_BYTES", 100_000)
    history = CallHistory()
    history.set_listener(lambda record: None)
    await run_calls(history, histories.MAX_RECORDS + 500, "x" * 2000)
    records = history.list_records()
    assert len(records) == histories.MAX_RECORDS
    assert sum(record.size for record in records) <= 100_000
    assert (records[0].is_dropped, records[-1].is_dropped) == (False, True)
    records_with_values = [record for record in records if not record.is_dropped]
    assert records_with_values == records[: len(records_with_values)]
    assert 20 < len(records_with_values) < 50


class Unreadable(dict[str, Any]):
    """An argument that cannot be visited."""

    def keys(self) -> Any:
        raise RuntimeError("unreadable")


@pytest.mark.parametrize("value", [Unreadable(), "x" * 2 * 1024 * 1024, {"x" * 2 * 1024 * 1024: 1}])
async def test_too_large_and_unreadable_values_are_dropped(value: Any) -> None:
    history = CallHistory()
    record = history.begin_call(ToolCall(id="1", name="tool", arguments={"value": value}), RunningCall())
    record.end(ToolResult(success=True))
    assert record.is_dropped
    assert record.call.arguments is None


async def test_the_history_has_fewer_calls_while_no_page_is_open() -> None:
    history = CallHistory()
    await run_calls(history, histories.MAX_UNWATCHED + 50, "text")
    assert len(history.list_records()) == histories.MAX_UNWATCHED
    history.set_listener(lambda record: None)
    await run_calls(history, histories.MAX_UNWATCHED, "text")
    assert len(history.list_records()) == 2 * histories.MAX_UNWATCHED
    history.set_listener(None)
    assert len(history.list_records()) == histories.MAX_UNWATCHED


async def test_a_handshake_client_is_listed_while_it_is_connected() -> None:
    async with serve_page(build_registry(make_entry("echo"))) as server, server.read() as page, page.follow():
        async with LEGACY.connect(server.base, token=TOKEN):
            added = await page.wait_for("client")
            (client,) = (await page.read_state())["clients"]
            assert client == added
            assert (client["name"], client["transport"], client["calls"]) == ("mcp", "http", 0)
        await page.wait_for("client", lambda data: data.get("is_connected") is False)
        assert (await page.read_state())["clients"] == []


async def test_clients_of_the_stateless_era_are_listed_after_their_first_call() -> None:
    async with serve_page(build_registry(make_entry("echo"))) as server, server.read() as page:
        async with MODERN.connect(server.base, token=TOKEN) as client:
            await client.call_tool("echo", {})
            await client.call_tool("echo", {})
        (row,) = (await page.read_state())["clients"]
    assert (row["name"], row["protocol"], row["transport"], row["calls"]) == ("mcp", "2026-07-28", "http", 2)


class Passing:
    """A policy without an effect."""

    stage = Stage.DECIDE

    async def __call__(self, call: Any, ctx: Any, call_next: Any) -> Any:
        return await call_next(call, ctx)


async def test_layers_are_measured_only_while_a_page_is_open() -> None:
    registry = ToolRegistry(pipeline=Pipeline([Passing()]))
    registry.register(make_entry("echo"))
    async with serve_page(registry) as server, server.read() as page:
        await page.call_tool("echo")
        (call,) = (await page.read_state())["calls"]
        assert call["layers"] == []
        async with page.follow():
            await page.call_tool("echo")
            call = await page.wait_for("call", lambda call: call["state"] == "ok")
    names = [layer["name"] for layer in call["layers"]]
    assert names[:2] == ["map errors", "validate input"]
    assert "Passing" in names
    assert names[-1] == "run handler"
    assert all(layer["ms"] >= 0 for layer in call["layers"])


async def test_the_settings_are_shown_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("from mcp_bridge import tool\n@tool\ndef add(n: int) -> int: return n\n")
    file = tmp_path / "bridge.yaml"
    state = "state: {keys: ['0123456789abcdef0123456789abcdef']}"
    file.write_text(f"name: ${{BRIDGE_NAME}}\nsources: [{{type: python, path: tools.py}}]\n{state}\n")
    settings = load(file, {"BRIDGE_NAME": "shop-of-things"})
    async with serve_page(build_from_settings(settings), settings=settings) as server, server.read() as page:
        state_of_server = await page.read_state()
    settings_of_page = state_of_server["settings"]
    assert settings_of_page["path"] == str(file)
    assert "path: tools.py" in settings_of_page["text"]
    assert "0123456789abcdef" not in settings_of_page["text"]
    (source,) = state_of_server["sources"]
    assert (source["name"], source["type"], source["state"], source["tools"]) == ("tools", "python", "ready", 1)


async def test_lint_findings_contain_the_client_and_the_fix() -> None:
    broken = make_entry("echo")
    broken.input_schema = {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    async with serve_page(build_registry(broken)) as server, server.read() as page:
        findings = (await page.read_state())["lint"]
    assert {finding["tool"] for finding in findings} >= {"echo"}
    assert all(finding["severity"] in ("error", "warning") and finding["client"] for finding in findings)


async def test_nested_calls_and_other_kinds_of_calls_are_listed_too() -> None:
    registry = ToolRegistry()

    @registry.tool
    async def outer(ctx: CallContext) -> str:
        await ctx.invoke("inner")
        return (await ctx.read_resource("text://note"))[0].content  # type: ignore[return-value]

    @registry.tool
    def inner() -> str:
        return "inner"

    @registry.resource("text://note")
    def note() -> str:
        return "a note"

    async with serve_page(registry) as server, server.read() as page:
        await page.call_tool("outer")
        calls = (await page.read_state())["calls"]
    assert [(call["tool"], call["kind"]) for call in calls] == [
        ("text://note", "resource"), ("inner", "tool"), ("outer", "tool"),
    ]  # fmt: skip
    assert len({call["client"] for call in calls}) == 1

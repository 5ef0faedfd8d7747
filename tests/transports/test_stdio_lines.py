"""For any bytes of a client, each request gets a response, and so does the next one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext, ToolEntry, ToolRegistry, tool
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._runtime.line_splitter import MAX_LINE
from mcp_bridge._runtime.stdio_descriptors import StdioPipes
from mcp_bridge._transports import stdio
from tests.client.stdio_client import StdioClient, encode_line, serve_over_pipes
from tests.kits.constants import ENVELOPE, TIMEOUT
from tests.kits.loops import BOTH_LOOPS


@tool
def get_length(text: str) -> int:
    """Return the length of a text."""
    return len(text)


@tool
def repeat(text: str, times: int) -> str:
    """Return a text many times."""
    return text * times


@pytest.fixture
def registry() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register(get_length.tool_entry)
    registry.register(repeat.tool_entry)
    return registry


def get_text(answer: dict[str, Any]) -> str:
    return str(answer["result"]["content"][0]["text"])


def get_error(answer: dict[str, Any]) -> tuple[Any, int]:
    return answer["id"], answer["error"]["code"]


async def assert_still_served(client: StdioClient) -> None:
    assert get_text(await client.receive_response(await client.send_call("get_length", {"text": "four"}))) == "4"


@pytest.mark.parametrize(
    ("data", "number", "code", "stateless"),
    [
        (b"this is not JSON\n", None, -32700, False),
        (b"\xff\xfe\n", None, -32700, True),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":NaN}}\n', 7, -32700, True),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":1e400}}\n', 7, -32700, False),
        (b'{"jsonrpc":"2.0","id":"b","method":"ping","params":{"a":"\xff"}}\n', "b", -32700, False),
        (b'{"jsonrpc":"2.0","id":"c","method":"ping","params":{"a":"\t"}}\n', "c", -32700, True),
        (
            b'[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":"b","method":"ping"}]\n',
            None,
            -32600,
            True,
        ),
        (b'{"jsonrpc":"2.0","id":"mine","method":7}\n', "mine", -32600, False),
    ],
)
async def test_a_line_that_is_no_request_is_answered_and_the_next_one_served(
    registry: ToolRegistry, data: bytes, number: Any, code: int, stateless: bool
) -> None:
    async with serve_over_pipes(registry, stateless=stateless, initialize=False) as client:
        await client.write(data)
        assert get_error(await client.receive_response(number)) == (number, code)
        await client.initialize()
        await client.write(data)
        assert get_error(await client.receive_response(number)) == (number, code)
        await assert_still_served(client)


async def test_half_an_emoji_is_replaced(registry: ToolRegistry) -> None:
    halves = {r"cut \ud83d": "cut \ufffd", r"\ude00!": "\ufffd!", r"\ud83d\ude00": "\U0001f600", r"\\ud83d": r"\ud83d"}
    async with serve_over_pipes(registry, stateless=True) as client:
        for escaped_text, text in halves.items():
            request = client.make_request("tools/call", {"name": "repeat", "arguments": {"text": "TEXT", "times": 1}})
            await client.write(encode_line(request).replace(b"TEXT", escaped_text.encode()))
            assert get_text(await client.receive_response(request["id"])) == text


async def test_a_byte_order_mark_before_a_line_is_ignored(registry: ToolRegistry) -> None:
    async with serve_over_pipes(registry, stateless=True) as client:
        request = client.make_request("tools/call", {"name": "get_length", "arguments": {"text": "four"}})
        await client.write(b"\xef\xbb\xbf" + encode_line(request))
        assert get_text(await client.receive_response(request["id"])) == "4"


async def test_a_line_just_within_the_limit_is_served(registry: ToolRegistry) -> None:
    async with serve_over_pipes(registry) as client:
        request = client.make_request("tools/call", {"name": "get_length", "arguments": {"text": ""}})
        fill = MAX_LINE - (len(encode_line(request)) - 1)
        request["params"]["arguments"]["text"] = "x" * fill
        await client.send(request)
        assert get_text(await client.receive_response(request["id"])) == str(fill)
        request["params"]["arguments"]["text"] += "x"
        await client.send(request)
        assert get_error(await client.receive_response(None)) == (None, -32600)


async def test_a_last_line_that_is_too_long_and_has_no_newline_is_rejected(registry: ToolRegistry) -> None:
    async with serve_over_pipes(registry, initialize=False) as client:
        await client.write(b"x" * (MAX_LINE + 1))
        client.close_input()
        assert [get_error(answer) for answer in await client.receive_rest()] == [(None, -32600)]


async def test_blank_lines_are_ignored(registry: ToolRegistry) -> None:
    async with serve_over_pipes(registry, initialize=False) as client:
        await client.write(b"\n  \n\r\n\t\n")
        await client.initialize()
        await client.write(b"\n\n")
        await assert_still_served(client)
        client.close_input()
        assert await client.receive_rest() == []
        assert all("error" not in message for message in client.received)


async def test_lines_may_end_with_a_carriage_return(registry: ToolRegistry) -> None:
    async with serve_over_pipes(registry) as client:
        request = client.make_request("tools/call", {"name": "get_length", "arguments": {"text": "1"}})
        await client.write(json.dumps(request).encode() + b"\r\n")
        assert get_text(await client.receive_response(request["id"])) == "1"


@BOTH_LOOPS
async def test_a_request_may_come_byte_by_byte_and_many_in_one_piece(registry: ToolRegistry) -> None:
    async with serve_over_pipes(registry) as client:
        request = client.make_request("tools/call", {"name": "get_length", "arguments": {"text": "é"}})
        for byte in encode_line(request):
            await client.write(bytes([byte]))
            await anyio.lowlevel.checkpoint()
        assert get_text(await client.receive_response(request["id"])) == "1"
        many = []
        for n in range(200):
            call = {"name": "get_length", "arguments": {"text": "x" * n}}
            many.append(client.make_request("tools/call", call))
        await client.write(b"".join(map(encode_line, many)))
        for n, piece in enumerate(many):
            assert get_text(await client.receive_response(piece["id"])) == str(n)


async def test_an_unknown_method_and_an_unknown_tool_have_their_codes(registry: ToolRegistry, stateless: bool) -> None:
    async with serve_over_pipes(registry, stateless=stateless) as client:
        assert (await client.request("tools/make"))["error"]["code"] == -32601
        error = (await client.receive_response(await client.send_call("lenght", {"text": "x"})))["error"]
        assert (error["code"], error["data"]) == (-32602, {"name": "lenght"})
        assert (await client.request("tools/call", {"arguments": {}}))["error"]["code"] == -32602
        await assert_still_served(client)


async def test_invalid_arguments_are_a_result_for_the_model(registry: ToolRegistry) -> None:
    async with serve_over_pipes(registry) as client:
        answer = await client.receive_response(await client.send_call("get_length", {"text": 7}))
        assert answer["result"]["isError"] is True
        assert "text" in get_text(answer)


async def test_a_stateless_client_needs_no_initialization(registry: ToolRegistry) -> None:
    async with serve_over_pipes(registry, stateless=True) as client:
        await assert_still_served(client)
        assert (await client.request("server/discover"))["result"]["capabilities"]["tools"]["listChanged"] is True


async def test_the_first_request_decides_the_era_of_a_connection(registry: ToolRegistry, stateless: bool) -> None:
    async with serve_over_pipes(registry, stateless=stateless, initialize=False) as client:
        for method in ("ping", "tools/list"):
            await client.send({"jsonrpc": "2.0", "id": method, "method": method})
            await client.receive_response(method)
        await client.initialize()
        await assert_still_served(client)


async def test_a_handshake_client_receives_the_capability_of_changed_lists(registry: ToolRegistry) -> None:
    async with serve_over_pipes(registry) as client:
        assert client.initialize_result["capabilities"]["tools"]["listChanged"] is True
        assert client.initialize_result["serverInfo"]["name"] == "mcp-bridge"


async def test_a_result_that_cannot_be_written_as_json_is_an_error_with_its_id() -> None:
    registry = ToolRegistry()

    @tool
    def greedy() -> dict[str, Any]:
        """More than JSON numbers hold."""
        return {"number": 2**70}

    registry.register(greedy.tool_entry)
    async with serve_over_pipes(registry) as client:
        answer = await client.receive_response(await client.send_call("greedy"))
        assert "error" in answer or "content" in answer["result"]
        assert "result" in await client.request("tools/list")


@BOTH_LOOPS
async def test_a_client_that_disconnects_immediately_receives_nothing(registry: ToolRegistry) -> None:
    async with serve_over_pipes(registry, initialize=False) as client:
        client.close_input()
        assert await client.receive_rest() == []


@BOTH_LOOPS
async def test_responses_wait_for_a_slow_reader_and_none_is_lost(registry: ToolRegistry) -> None:
    async with serve_over_pipes(registry) as client:
        numbers = [await client.send_call("repeat", {"text": "x", "times": 700_000}) for _ in range(8)]
        client.close_input()
        answers = {answer["id"]: get_text(answer) for answer in await client.receive_rest()}
        assert answers == dict.fromkeys(numbers, "x" * 700_000)


@BOTH_LOOPS
async def test_a_reader_that_stops_reading_does_not_delay_the_shutdown(registry: ToolRegistry) -> None:
    async with serve_over_pipes(registry, drain=0.3) as client:
        for _ in range(8):
            await client.send_call("repeat", {"text": "x", "times": 700_000})
    # `serve_over_pipes` waits until serving has ended.
    assert len(client.received) == 1


@BOTH_LOOPS
async def test_a_closed_output_ends_serving_although_input_stays_open(registry: ToolRegistry) -> None:
    from_client, to_server = os.pipe()
    from_server, to_client = os.pipe()
    try:
        os.write(to_server, b"{\n")
        os.close(from_server)
        with anyio.fail_after(TIMEOUT):
            await stdio.serve(Bridge(registry).endpoint, StdioPipes(from_client, to_client), handles_signals=False)
    finally:
        for descriptor in (from_client, to_server, to_client):
            os.close(descriptor)


@BOTH_LOOPS
async def test_senders_that_wait_for_a_reader_continue_when_it_closes(registry: ToolRegistry) -> None:
    from_client, to_server = os.pipe()
    from_server, to_client = os.pipe()
    arguments = {"text": "x", "times": 700_000}
    calls = [
        {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": "repeat", "arguments": arguments}}
        for n in range(8)
    ]
    for call in calls:
        call["params"]["_meta"] = ENVELOPE  # type: ignore[index]
    bridge = Bridge(registry)
    try:
        with anyio.fail_after(TIMEOUT):
            async with bridge.run_sources(), anyio.create_task_group() as tasks:
                os.write(to_server, b"".join(map(encode_line, calls)))

                async def serve() -> None:
                    await stdio.serve(bridge.endpoint, StdioPipes(from_client, to_client), handles_signals=False)

                tasks.start_soon(serve)
                await anyio.wait_readable(from_server)
                os.close(from_server)
    finally:
        for descriptor in (from_client, to_server, to_client):
            os.close(descriptor)


@BOTH_LOOPS
async def test_input_that_cannot_be_read_is_the_end_of_input(
    registry: ToolRegistry, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        with anyio.fail_after(TIMEOUT):
            await stdio.serve(Bridge(registry).endpoint, StdioPipes(folder, nowhere), handles_signals=False)
    finally:
        os.close(folder)
        os.close(nowhere)
    assert "cannot be read" in caplog.text


@BOTH_LOOPS
async def test_a_tool_that_sends_more_than_is_read_waits_for_the_reader() -> None:
    sent_steps: list[int] = []
    start = anyio.Event()

    async def chatter(data: Any, ctx: CallContext) -> str:
        for step in range(100):
            await ctx.report_progress(step, message="x" * 100_000)
            sent_steps.append(step)
            start.set()
        return "said all"

    registry = ToolRegistry()
    registry.register(ToolEntry("chatter", "Talks.", chatter, {"type": "object"}))
    async with serve_over_pipes(registry) as client:
        number = await client.send_call("chatter", meta={"progressToken": 1})
        with anyio.fail_after(TIMEOUT):
            await start.wait()
        await anyio.wait_all_tasks_blocked()
        assert 0 < len(sent_steps) < 50
        assert get_text(await client.receive_response(number)) == "said all"
    assert len(client.received) == 1 + 100 + 1

"""Real server processes: their start, their output and their end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ToolsListChanged

from tests.client.stdio_client import StdioProcessClient, encode_line, make_serve_command, serve_file
from tests.kits.constants import ENVELOPE, TIMEOUT
from tests.kits.paths import KITS

TOOLS = KITS / "transports" / "stdio_tools.py"
CHANGED = "notifications/tools/list_changed"


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


@contextlib.asynccontextmanager
async def hold_call(server: StdioProcessClient, fifo: Path) -> Any:
    """Keep a call of `gate` running during the block."""
    number = await server.send_call("gate", {"fifo": str(fifo)})
    with anyio.fail_after(TIMEOUT):
        descriptor = await to_thread.run_sync(os.open, fifo, os.O_WRONLY, abandon_on_cancel=True)
    try:
        yield number
        # The process may have ended.
        with contextlib.suppress(BrokenPipeError):
            os.write(descriptor, b"released")
    finally:
        os.close(descriptor)


def write_settings(folder: Path) -> Path:
    """Write settings with the tools of this module and a long drain."""
    path = folder / "mcp-bridge.json"
    path.write_text(json.dumps({"limits": {"drain": "1h"}, "sources": [{"type": "python", "path": str(TOOLS)}]}))
    return path


def get_text(answer: dict[str, Any]) -> str:
    return str(answer["result"]["content"][0]["text"])


async def test_a_process_responds_to_garbage_and_continues(fifo: Path) -> None:
    async with serve_file(TOOLS, initialize=False) as server:
        await server.write(b"garbage\n[1]\n\n" + b"x" * 5_000_000 + b'\n{"jsonrpc":"2.0","id":"odd","method":1}\n')
        codes = [(await server.receive(lambda _: True))["error"]["code"] for _ in range(4)]
        assert codes == [-32700, -32600, -32600, -32600]
        await server.initialize()
        assert (await server.request("no/such"))["error"]["code"] == -32601
        assert (await server.receive_response(await server.send_call("no_such")))["error"]["code"] == -32602
        async with hold_call(server, fifo) as waiting:
            last = server.make_request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
            await server.write(encode_line(last).rstrip(b"\n"))
            server.close_input()
            assert get_text(await server.receive_response(last["id"])) == "3"
        assert get_text(await server.receive_response(waiting)) == "released"
        assert await server.receive_rest() == []
        assert await server.wait() == 0


async def test_only_messages_reach_stdout(tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("wb") as stderr:
        async with serve_file(TOOLS, stderr=stderr, initialize=False) as server:
            # StdioClient accepts only JSON-RPC on stdout.
            await server.initialize()
            assert get_text(await server.receive_response(await server.send_call("noisy"))) == "read '' and ''"
            assert get_text(await server.receive_response(await server.send_call("noisy_async"))) == "read ''"
            server.close_input()
            assert await server.receive_rest() == []
    output = (tmp_path / "stderr").read_text()
    for where in ("at import", "in a call", "in an async call"):
        for how in ("print", "write", "descriptor", "child"):
            assert f"noise: {how} {where}" in output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_at_a_signal_calls_in_flight_are_answered(number: signal.Signals, fifo: Path) -> None:
    async with serve_file(TOOLS, stateless=True) as server:
        descriptor = await server.subscribe_to_tools()
        async with hold_call(server, fifo) as waiting:
            server.signal(number)
            assert (await server.receive_response(descriptor))["result"][
                "resultType"
                # So the signal has arrived.
            ] == "complete"
        assert get_text(await server.receive_response(waiting)) == "released"
        assert await server.wait() == 0
        assert await server.receive_rest() == []


async def test_at_a_signal_a_handshake_client_is_answered_too(fifo: Path) -> None:
    async with serve_file(TOOLS) as server:
        async with hold_call(server, fifo) as waiting:
            server.signal(signal.SIGTERM)
        assert get_text(await server.receive_response(waiting)) == "released"
        assert await server.wait() == 0


async def test_a_second_signal_ends_at_once(fifo: Path, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    async with serve_file(write_settings(tmp_path), stateless=True) as server:
        descriptor = await server.subscribe_to_tools()
        await server.send_call("forever", {"diary": str(diary)})
        async with hold_call(server, fifo):
            server.signal(signal.SIGTERM)
            await server.receive_response(descriptor)
            server.signal(signal.SIGTERM)
            assert await server.wait() == 0
    assert diary.read_text() == "CancelledError"


async def test_a_second_interrupt_with_nothing_but_coroutines_ends_at_once(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    async with serve_file(write_settings(tmp_path), stateless=True) as server:
        descriptor = await server.subscribe_to_tools()
        await server.send_call("forever", {"diary": str(diary)})
        await wait_for_text(diary, "begun")
        server.signal(signal.SIGINT)
        await server.receive_response(descriptor)
        server.signal(signal.SIGINT)
        assert await server.wait() == 0
    assert diary.read_text() == "CancelledError"


@pytest.mark.parametrize("input_open", [False, True], ids=["and its input ends", "with its input open"])
async def test_a_client_that_closes_the_output_ends_the_process_cleanly(input_open: bool, tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("wb") as stderr:
        async with serve_file(TOOLS, stateless=True, stderr=stderr) as server:
            assert server.process.stdout is not None
            server.process.stdout.close()
            for _ in range(3):
                await server.send_call("add", {"a": 1, "b": 2})
            if not input_open:
                server.close_input()
            assert await server.wait() == 0
    assert "Traceback" not in (tmp_path / "stderr").read_text()


def list_requests() -> Iterator[dict[str, Any]]:
    for number in range(50):
        params = {"name": "add", "arguments": {"a": number, "b": 1}, "_meta": ENVELOPE}
        yield {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


async def test_input_and_output_may_be_files(tmp_path: Path) -> None:
    source, sink = tmp_path / "requests", tmp_path / "answers"
    source.write_bytes(b"".join(map(encode_line, list_requests())).rstrip(b"\n"))
    with source.open("rb") as stdin, sink.open("wb") as stdout:
        process = await to_thread.run_sync(
            lambda: subprocess.run(make_serve_command(TOOLS), stdin=stdin, stdout=stdout, check=True, timeout=TIMEOUT)
        )
    answers = [json.loads(line) for line in sink.read_bytes().splitlines()]
    assert sorted((line["id"], get_text(line)) for line in answers) == [(n, str(n + 1)) for n in range(50)]
    assert process.returncode == 0


async def test_empty_input_ends_the_process_without_output() -> None:
    process = await to_thread.run_sync(
        lambda: subprocess.run(
            make_serve_command(TOOLS), stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=TIMEOUT
        )
    )
    assert (process.returncode, process.stdout) == (0, b"")


async def test_the_official_client_calls_receives_progress_and_cancels(tmp_path: Path) -> None:
    progress_values: list[float] = []
    last = anyio.Event()
    diary = tmp_path / "diary"

    async def record_progress(progress: float, total: float | None, message: str | None) -> None:
        progress_values.append(progress)
        if progress == total:
            last.set()

    argv = make_serve_command(TOOLS)
    with anyio.fail_after(2 * TIMEOUT), (tmp_path / "stderr").open("w") as stderr:
        parameters = StdioServerParameters(command=argv[0], args=argv[1:])
        async with Client(stdio_client(parameters, stderr)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["add", "forever", "gate", "noisy", "noisy_async", "steps"]
            answer = await client.call_tool("add", {"a": 1, "b": 2})
            assert (answer.is_error, answer.content[0].text) == (False, "3")  # type: ignore[union-attr]
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("nothing", {})
            await client.call_tool("steps", {"count": 4}, progress_callback=record_progress)
            await last.wait()
            assert progress_values == [1, 2, 3, 4]
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "forever", {"diary": str(diary)})
                await wait_for_text(diary, "begun")
                tasks.cancel_scope.cancel()
            await wait_for_text(diary, "CancelledError")
            assert not (await client.call_tool("add", {"a": 1, "b": 2})).is_error


async def wait_for_text(path: Path, text: str) -> None:
    """Wait until another process has written this text."""

    def found() -> bool:
        return path.exists() and path.read_text() == text

    with anyio.fail_after(TIMEOUT):
        while not found():  # noqa: ASYNC110 - another process's file has no event
            await anyio.sleep(0.01)


BEFORE = """
from pathlib import Path
from mcp_bridge import tool

@tool
def gate(fifo: str) -> str:
    "Waits."
    return Path(fifo).read_text() + " by the old one"
"""
AFTER = """
from mcp_bridge import tool

@tool
def newcomer() -> str:
    "Is new."
    return "hello"
"""


def replace_file(path: Path, text: str) -> None:
    """Replace a file in one step, as editors do."""
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(path)


async def test_an_edited_file_changes_the_tools_notifies_the_client_and_loses_no_call(
    tmp_path: Path, fifo: Path
) -> None:
    folder = tmp_path / "edited"
    folder.mkdir()
    path = folder / "edited_tools.py"
    path.write_text(BEFORE)
    async with serve_file(path, "--reload") as server:
        assert await list_tools(server) == ["gate"]
        async with hold_call(server, fifo) as waiting:
            await edit_until_noticed(server, path, AFTER)
            assert await list_tools(server) == ["newcomer"]
        assert get_text(await server.receive_response(waiting)) == "released by the old one"
        assert get_text(await server.receive_response(await server.send_call("newcomer"))) == "hello"
        assert (await server.receive_response(await server.send_call("gate", {"fifo": ""})))["error"]["code"] == -32602
        server.close_input()
        assert await server.wait() == 0


async def list_tools(server: StdioProcessClient) -> list[str]:
    return [tool["name"] for tool in (await server.request("tools/list"))["result"]["tools"]]


async def edit_until_noticed(server: StdioProcessClient, path: Path, text: str) -> None:
    """Edit a file until the server reloads it: the first edits may precede its watching."""
    with anyio.fail_after(TIMEOUT):
        while True:
            replace_file(path, text)
            with anyio.move_on_after(1):
                await server.receive_message(CHANGED)
                return


async def test_the_official_client_listens_for_an_edit(tmp_path: Path) -> None:
    path = tmp_path / "edited_by_client.py"
    path.write_text(BEFORE)
    argv = make_serve_command(path, "--reload")
    with anyio.fail_after(2 * TIMEOUT):
        parameters = StdioServerParameters(command=argv[0], args=argv[1:])
        async with (
            Client(stdio_client(parameters), mode="auto") as client,
            client.listen(tools_list_changed=True) as stream,
        ):
            assert [tool.name for tool in (await client.list_tools()).tools] == ["gate"]
            notification = None
            while notification is None:
                replace_file(path, AFTER)
                with anyio.move_on_after(1):
                    notification = await anext(stream)
            assert notification == ToolsListChanged()
            assert [tool.name for tool in (await client.list_tools()).tools] == ["newcomer"]

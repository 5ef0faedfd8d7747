"""The processes of commands always end with their call and with the server."""

from __future__ import annotations

import signal
import socket
import sys
from pathlib import Path

import anyio

from tests.kits.cli.cli_running import RunningCommand
from tests.kits.commands.command_kit import build_bridge, connect_commands, write_tool
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.processes.processes_kit import find_processes, make_token, wait_until_gone
from tests.kits.sandbox.sandbox_kit import on_both_mechanisms
from tests.kits.waiting import wait_until
from tests.kits.wire.speaking import call, get_text


@BOTH_LOOPS
async def test_a_cancelled_call_ends_the_program_and_its_descendants(tmp_path: Path) -> None:
    token = make_token()
    tool = write_tool("stubborn", "parent", token, stream="progress")
    start = anyio.Event()

    async def receive(progress: float, total: float | None, message: str | None) -> None:
        start.set()

    with anyio.fail_after(TIMEOUT):
        async with connect_commands(tmp_path, {"t": tool}) as client, anyio.create_task_group() as tasks:

            async def call_tool() -> None:
                await client.call_tool("t", {}, progress_callback=receive)

            tasks.start_soon(call_tool)
            await start.wait()
            assert len(find_processes(token)) >= 2
            tasks.cancel_scope.cancel()
        wait_until_gone(token)


@BOTH_LOOPS
async def test_a_call_that_takes_too_long_ends_its_program(tmp_path: Path) -> None:
    token = make_token()
    tools, settings = {"t": write_tool("stubborn", "parent", token)}, {"limits": {"timeout": 0.5}}
    async with connect_commands(tmp_path, tools, settings) as client:
        result = await call(client, "t")
        assert result["isError"]
        assert get_text(result) == "Tool 't' did not finish within 0.5 seconds and was stopped."
        await anyio.to_thread.run_sync(wait_until_gone, token)


@BOTH_LOOPS
async def test_programs_end_with_the_source(tmp_path: Path) -> None:
    token = make_token()
    bridge = build_bridge(tmp_path, {"t": write_tool("stubborn", "parent", token)})
    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            async with bridge.run_sources():
                await bridge.wait_until_started()
                tasks.start_soon(bridge.registry.ainvoke, "t", {})
                await anyio.to_thread.run_sync(wait_until, lambda: len(find_processes(token)) >= 2)
            tasks.cancel_scope.cancel()
    wait_until_gone(token)


async def test_processes_that_a_program_leaves_running_end_with_it(tmp_path: Path) -> None:
    token = make_token()
    with anyio.fail_after(TIMEOUT):
        async with connect_commands(tmp_path, {"t": write_tool("leave", token)}) as client:
            assert get_text(await call(client, "t")) == "left"
            assert find_processes(token) == []


async def test_a_program_that_prints_without_end_is_ended(tmp_path: Path) -> None:
    token = make_token()
    async with connect_commands(tmp_path, {"t": write_tool("flood", token)}) as client:
        result = await call(client, "t")
        assert result["isError"]
        assert get_text(result) == (
            "The program 'python' printed more than 16,777,216 bytes, and was ended. "
            "Choose arguments for which it prints less."
        )
        assert result["_meta"]["mcp-bridge/code"] == "result_too_large"
        await anyio.to_thread.run_sync(wait_until_gone, token)


def test_a_program_ends_with_a_command_line_that_is_killed(tmp_path: Path) -> None:
    token = make_token()
    build_bridge(tmp_path, {"t": write_tool("stubborn", "parent", token, stream="progress")})
    command = RunningCommand("call", "settings.json", "t", cwd=tmp_path)
    command.wait_for("started")
    command.process.kill()
    wait_until_gone(token)
    command.process.communicate()


def test_ctrl_c_ends_the_program_of_a_call(tmp_path: Path) -> None:
    token = make_token()
    build_bridge(tmp_path, {"t": write_tool("stubborn", "parent", token, stream="progress")})
    command = RunningCommand("call", "settings.json", "t", cwd=tmp_path)
    command.wait_for("started")
    command.process.send_signal(signal.SIGINT)
    assert command.process.wait(TIMEOUT) == 130
    wait_until_gone(token)
    command.process.communicate()


# The sandbox

HIDDEN = {"bubblewrap": "No such file", "landlock": "Permission denied"}
READ_ONLY = {"bubblewrap": "Read-only", "landlock": "Permission denied"}
NO_NETWORK = {"bubblewrap": "refused", "landlock": "not permitted"}
READ = {"command": ["cat", "{p}"], "parameters": {"p": "string"}}
WRITE = {"command": ["touch", "{p}"], "parameters": {"p": "string"}}


@on_both_mechanisms
async def test_a_sandboxed_program_reads_the_root_and_writes_the_paths_of_the_settings(
    mechanism: str, tmp_path: Path
) -> None:
    root = tmp_path / "data"
    (root / "out").mkdir(parents=True)
    (root / "file").write_text("data")
    (tmp_path / "secret").write_text("secret")
    tools = {"read": READ, "write": WRITE}
    async with connect_commands(
        tmp_path, tools, root="data", sandbox={"type": mechanism, "write": ["data/out"]}
    ) as client:
        assert get_text(await call(client, "read", p="file")) == "data"
        assert HIDDEN[mechanism] in get_text(await call(client, "read", p=f"{tmp_path}/secret"))
        assert READ_ONLY[mechanism] in get_text(await call(client, "write", p="new"))
        assert not (await call(client, "write", p="out/new"))["isError"]
    assert (root / "out" / "new").exists()


@on_both_mechanisms
async def test_a_sandboxed_program_has_no_network(mechanism: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = (
            f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]})); print('connected')"
        )
        tool = {"command": [sys.executable, "-c", script]}
        async with connect_commands(tmp_path, {"t": tool}, root="data", sandbox=mechanism) as client:
            assert NO_NETWORK[mechanism] in get_text(await call(client, "t"))
        async with connect_commands(
            tmp_path, {"t": tool}, root="data", sandbox={"type": mechanism, "network": True}
        ) as client:
            assert get_text(await call(client, "t")) == "connected"

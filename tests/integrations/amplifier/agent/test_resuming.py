"""A stored conversation of `context-persistent` continues in another process of the server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge import ToolCall, open_bridge
from mcp_bridge._contracts.running_call import RunningCall
from tests.kits.amplifier.amplifier_modules import write_files
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS

SETTINGS = """
sources:
  - type: amplifier
    host: {HOST}
    plan:
      session: {orchestrator: loop-basic, context: context-persistent}
      context: {config: {path: "{FOLDER}/{session_id}.jsonl"}}
      providers:
        - {module: provider-scripted, config: {responses: [One., Two., Three.]}}
"""


def write_settings(folder: Path, host: str = "native", **changes: str) -> Path:
    text = SETTINGS.replace("{HOST}", host).replace("{FOLDER}", str(folder / "histories"))
    for old, new in changes.items():
        text = text.replace(old, new)
    write_files(folder, {"agent.yaml": text})
    return folder / "agent.yaml"


async def run_in_new_bridge(settings: Path, principal: str | None = None, **arguments: Any) -> Any:
    """Start a server for one call, and return its result."""
    async with open_bridge(settings) as bridge:
        call = ToolCall(id="1", name="run_agent", arguments=arguments)
        return await bridge.registry.dispatch(call, RunningCall(principal=principal))


def read_histories(folder: Path) -> list[list[str]]:
    files = sorted((folder / "histories").glob("*"))
    return [[json.loads(line)["content"] for line in file.read_text().splitlines()] for file in files]


@BOTH_HOSTS
async def test_a_new_server_continues_a_conversation(host: str, tmp_path: Path) -> None:
    settings = write_settings(tmp_path, host)
    first = await run_in_new_bridge(settings, task="Count.")
    second = await run_in_new_bridge(settings, task="Go on.", session=first.output["session"])
    assert second.success, second
    assert second.output["session"] == first.output["session"]
    assert read_histories(tmp_path) == [["Count.", "One.", "Go on.", second.output["text"]]]


def test_another_process_of_the_command_continues_a_conversation(tmp_path: Path) -> None:
    settings = write_settings(tmp_path)

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "mcp_bridge", "call", str(settings), "run_agent", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    handle = run("task=Count.").split("session='")[1].split("'")[0]
    run("task=Go on.", f"session={handle}")
    assert [len(history) for history in read_histories(tmp_path)] == [4]


@pytest.mark.parametrize(("first", "second"), [("ann", "bob"), ("ann", None), (None, "ann"), ("a", "a/b")])
async def test_a_stored_conversation_belongs_to_its_principal(first: Any, second: Any, tmp_path: Path) -> None:
    settings = write_settings(tmp_path)
    handle = (await run_in_new_bridge(settings, first, task="Count.")).output["session"]
    stolen = await run_in_new_bridge(settings, second, task="Go on.", session=handle)
    assert stolen.code == "session_not_found"
    assert (await run_in_new_bridge(settings, first, task="Go on.", session=handle)).success
    assert len(read_histories(tmp_path)) == 1


async def test_a_session_is_not_a_path(tmp_path: Path) -> None:
    settings = write_settings(tmp_path)
    await run_in_new_bridge(settings, task="Count.")
    [file] = (tmp_path / "histories").glob("*")
    (tmp_path / "other.jsonl").write_bytes(file.read_bytes())
    for handle in (
        "../other",
        f"../histories/{file.stem}",
        file.stem,
        str(file),
        "..%2Fother",
        "a\0b",
        "/",
        ".",
        "x" * 9999,
    ):
        result = await run_in_new_bridge(settings, task="Go on.", session=handle)
        assert result.code == "session_not_found", handle
    assert len(read_histories(tmp_path)) == 1


async def test_a_file_does_not_reveal_the_handle(tmp_path: Path) -> None:
    handle = (await run_in_new_bridge(write_settings(tmp_path), task="Count.")).output["session"]
    [file] = (tmp_path / "histories").glob("*")
    assert handle not in file.name
    assert handle not in file.read_text()


async def test_a_conversation_that_ended_here_continues_from_its_file(tmp_path: Path) -> None:
    settings = write_settings(tmp_path, **{"    plan:": "    sessions: 1\n    plan:"})
    async with open_bridge(settings) as bridge:

        async def run(**arguments: Any) -> Any:
            call = ToolCall(id="1", name="run_agent", arguments=arguments)
            return await bridge.registry.dispatch(call, RunningCall())

        first = (await run(task="Count.")).output["session"]
        await run(task="Count.")
        assert (await run(task="Go on.", session=first)).success
    assert sorted(len(history) for history in read_histories(tmp_path)) == [2, 4]


async def test_conversations_in_memory_end_with_the_server(tmp_path: Path) -> None:
    settings = write_settings(tmp_path, **{"context-persistent": "context-simple"})
    handle = (await run_in_new_bridge(settings, task="Count.")).output["session"]
    assert (await run_in_new_bridge(settings, task="Go on.", session=handle)).code == "session_not_found"


async def test_a_conversation_whose_file_is_damaged_is_an_error_without_its_path(tmp_path: Path) -> None:
    settings = write_settings(tmp_path)
    handle = (await run_in_new_bridge(settings, task="Count.")).output["session"]
    [file] = (tmp_path / "histories").glob("*")
    file.write_text("no message\n")
    result = await run_in_new_bridge(settings, task="Go on.", session=handle)
    assert result.code == "agent_unavailable"
    assert str(tmp_path) not in result.error_text
    assert file.read_text() == "no message\n"

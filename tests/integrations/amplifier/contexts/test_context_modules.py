"""The context modules of this package: mounting them, their contract, and the file of context-persistent."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge._integrations.amplifier.contexts import persistent, simple
from mcp_bridge.amplifier.testing import TestCoordinator

HELLO: dict[str, Any] = {"role": "user", "content": "Hello, Jörg"}
SYSTEM: dict[str, Any] = {"role": "system", "content": "You are a sample."}


@pytest.mark.parametrize("module", [simple, persistent])
async def test_the_contract_of_contexts_holds(module: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mcp_bridge", "module", "validate", module.__file__]
    process = await anyio.run_process(
        [*command, "--config", f'{{"path": "{tmp_path}/{{session_id}}.jsonl"}}'], check=False, stderr=subprocess.STDOUT
    )
    assert process.returncode == 0, process.stdout.decode()
    assert "warn" not in process.stdout.decode()
    assert "FAIL" not in process.stdout.decode()


@pytest.mark.parametrize("mount", [simple.mount, persistent.mount])
async def test_a_mounted_context_declares_its_events(mount: Any, tmp_path: Path) -> None:
    coordinator = TestCoordinator()
    context = await mount(coordinator, {"path": str(tmp_path / "history")})
    assert coordinator.get("context") is context
    contributions = await coordinator.collect_contributions("observability.events")
    assert ["context:pre_compact", "context:post_compact"] in contributions


@pytest.mark.parametrize("config", [{"max_tokens": 0}, {"compaction_threshold": 2}])
async def test_an_invalid_configuration_is_rejected(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(config))):
        await simple.mount(TestCoordinator(), config)


async def test_unknown_keys_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    await simple.mount(TestCoordinator(), {"max_tokens": 10, "auto_compact": True})
    assert "unknown keys of a context's configuration are ignored: auto_compact" in caplog.text


@pytest.mark.parametrize("message", [{"content": "x"}, {"role": None}, "text"])
async def test_a_message_without_a_role_is_rejected_and_nothing_changes(message: Any) -> None:
    context = simple.SimpleContext()
    await context.add_message(HELLO)
    with pytest.raises(ValueError, match="Message must have 'role' field"):
        await context.add_message(message)
    with pytest.raises(ValueError, match="role"):
        await context.set_messages([SYSTEM, message])
    assert await context.get_messages() == [HELLO]


async def open_history(path: Path, **config: Any) -> persistent.PersistentContext:
    return await persistent.mount(TestCoordinator(), {"path": str(path), **config})


async def test_another_process_continues_the_history(tmp_path: Path) -> None:
    path = tmp_path / "new" / "history.jsonl"
    first = await open_history(path)
    await first.add_message(SYSTEM)
    await first.add_message(HELLO)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    second = await open_history(path)
    assert await second.get_messages() == [SYSTEM, HELLO]
    # This transcript lacks the system messages.
    await second.set_messages([HELLO])
    assert await second.get_messages() == [SYSTEM, HELLO]
    await second.clear()
    assert not path.exists()
    await second.set_messages([HELLO])
    assert await (await open_history(path)).get_messages() == [HELLO]


async def test_compaction_does_not_change_the_file(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    context = await open_history(path, max_tokens=500)
    for number in range(50):
        await context.add_message({"role": "user", "content": f"message {number} " + "word " * 50})
    assert len(await context.get_messages_for_request()) < 20
    assert len(path.read_bytes().splitlines()) == 50


async def test_messages_added_at_the_same_time_are_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    context = await open_history(path)
    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(context.add_message, {"role": "user", "content": f"message {number}"})
    assert await (await open_history(path)).get_messages() == await context.get_messages()


async def test_an_incomplete_message_is_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "history.jsonl"
    await (await open_history(path)).add_message(HELLO)
    with path.open("ab") as file:
        file.write(b'{"role": "assist')
    context = await open_history(path)
    assert "was not written completely" in caplog.text
    await context.add_message(SYSTEM)
    assert await (await open_history(path)).get_messages() == [HELLO, SYSTEM]


async def test_a_file_that_is_no_history_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"role": "user"}\nhello\n')
    with pytest.raises(ValueError, match=r"history\.jsonl, line 2: not a message"):
        await open_history(path)


async def test_a_message_that_cannot_be_written_is_not_kept(tmp_path: Path) -> None:
    context = await open_history(tmp_path / "history.jsonl")
    (tmp_path / "history.jsonl").mkdir()
    with pytest.raises(IsADirectoryError):
        await context.add_message(HELLO)
    assert await context.get_messages() == []


async def test_each_session_has_a_file_in_the_users_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    context = await persistent.mount(TestCoordinator(), {})
    await context.add_message(HELLO)
    assert (tmp_path / "mcp-bridge" / "contexts" / "test-session.jsonl").exists()

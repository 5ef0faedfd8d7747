"""Lost records and denied calls if the server is killed or the trail cannot be written."""

from __future__ import annotations

import logging
import random
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import pytest

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall
from mcp_bridge._policies.audit_trail import database
from mcp_bridge.testing import connect
from tests.kits.audit.audit_kit import (
    AuditedServer,
    build_audited_bridge,
    read_records,
    run_server,
    wait_for_record,
    write_settings,
)
from tests.kits.audit.killed_servers import kill_servers

resource = pytest.importorskip("resource")
UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the files of another process")


def test_a_killed_server_loses_no_call_that_it_has_responded_to(tmp_path: Path) -> None:
    responses, records = kill_servers(tmp_path, 2, chance=random.Random(1), max_responses=400)
    assert 0 < responses <= records


def test_the_start_of_a_call_is_recorded_even_if_the_server_is_killed(tmp_path: Path) -> None:
    trail = tmp_path / "trail.sqlite3"
    with run_server(write_settings(tmp_path, starts=True)) as server:
        server.call("1")
        server.send_calls(["2"], "wait")
        wait_for_record(trail, call="2")
        server.kill(trail)
    assert [(record["call"], record["outcome"]) for record in read_records(trail)] == [
        *(("1", "started"), ("1", "ok"), ("2", "started"))
    ]


async def test_a_call_that_is_cancelled_before_it_runs_is_recorded(tmp_path: Path) -> None:
    bridge, trail = build_audited_bridge(tmp_path, starts=True), tmp_path / "trail.sqlite3"
    call = ToolCall(id="1", name="add", arguments={"a": 1, "b": 2})
    async with bridge.run_sources():
        await bridge.wait_until_started()
        await bridge.registry.dispatch(call, RunningCall(request_id="1"))
        with closing(sqlite3.connect(trail, isolation_level=None)) as lock:
            # The lock delays the record of the next call's start.
            lock.execute("BEGIN IMMEDIATE")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(bridge.registry.dispatch, call, RunningCall(request_id="2"))
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
            lock.execute("ROLLBACK")
        await bridge.registry.dispatch(call, RunningCall(request_id="3"))
    outcomes = [record["outcome"] for record in read_records(trail)]
    assert outcomes == ["started", "ok", "started", "cancelled", "started", "ok"]


@contextmanager
def fill_disk(server: AuditedServer, trail: Path) -> Iterator[None]:
    """Make every write to the file of the audit trail fail, as on a full disk."""
    size = Path(f"{trail}-wal").stat().st_size
    resource.prlimit(server.find_pid(trail), resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    yield
    resource.prlimit(server.find_pid(trail), resource.RLIMIT_FSIZE, UNLIMITED)


@LINUX
def test_on_a_full_disk_calls_are_denied_until_there_is_space(tmp_path: Path) -> None:
    trail = tmp_path / "trail.sqlite3"
    with run_server(write_settings(tmp_path)) as server:
        server.call("1")
        with fill_disk(server, trail):
            first_response = server.call("2")
            second_response = server.call("3")
        assert "isError" not in server.call("4")
        log = server.end()
    assert [record["_meta"]["mcp-bridge/code"] for record in (first_response, second_response)] == [
        "audit_unavailable"
    ] * 2
    assert "may have run, and its result is not returned" in first_response["content"][0]["text"]
    assert "did not run" in second_response["content"][0]["text"]
    first, gap, last = read_records(trail)
    assert (first["call"], last["call"]) == ("1", "4")
    assert (gap["kind"], gap["lost"]) == ("gap", 1)
    assert str(trail) in log
    assert str(trail) not in str(first_response)


@LINUX
def test_on_a_full_disk_calls_can_be_allowed_and_the_lost_records_are_counted(tmp_path: Path) -> None:
    trail = tmp_path / "trail.sqlite3"
    with run_server(write_settings(tmp_path, on_failure="continue")) as server:
        server.call("1")
        with fill_disk(server, trail):
            results = [server.call(number) for number in ("2", "3")]
        server.call("4")
        log = server.end()
    assert all("isError" not in result for result in results)
    assert [record.get("lost", record.get("call")) for record in read_records(trail)] == ["1", 2, "4"]
    assert log.count("cannot be used") == 1


async def test_a_file_that_stays_locked_denies_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT", 0.01)
    async with connect(build_audited_bridge(tmp_path, starts=True)) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        with closing(sqlite3.connect(tmp_path / "trail.sqlite3", isolation_level=None)) as lock:
            lock.execute("BEGIN IMMEDIATE")
            result = await client.call_tool("add", {"a": 1, "b": 2})
            lock.execute("ROLLBACK")
        assert "did not run" in result.content[0].text
        assert not (await client.call_tool("add", {"a": 1, "b": 2})).is_error


def test_another_file_at_the_path_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "trail.sqlite3").write_text("something else entirely, and longer than a header" * 10, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"bridge\.yaml:3.* is not an audit trail"):
        build_audited_bridge(tmp_path)
    with closing(sqlite3.connect(tmp_path / "other.sqlite3")) as lock:
        lock.execute("CREATE TABLE records (seq)")
    with pytest.raises(ConfigError, match="is not an audit trail"):
        build_audited_bridge(tmp_path, path="other.sqlite3")


def test_a_folder_that_cannot_be_created_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be created"):
        build_audited_bridge(tmp_path, path="file/trail.sqlite3")


async def test_only_the_owner_can_read_the_trail(tmp_path: Path) -> None:
    async with connect(build_audited_bridge(tmp_path, path="new/folder/trail.sqlite3")) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    assert (tmp_path / "new/folder/trail.sqlite3").stat().st_mode & 0o777 == 0o600


def test_a_command_that_calls_no_tool_creates_no_trail(tmp_path: Path) -> None:
    build_audited_bridge(tmp_path)
    assert not (tmp_path / "trail.sqlite3").exists()


async def test_a_failure_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT", 0.01)
    caplog.set_level(logging.WARNING, "mcp_bridge.audit")
    async with connect(build_audited_bridge(tmp_path)) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        with closing(sqlite3.connect(tmp_path / "trail.sqlite3", isolation_level=None)) as lock:
            lock.execute("BEGIN IMMEDIATE")
            for _ in range(3):
                await client.call_tool("add", {"a": 1, "b": 2})
            lock.execute("ROLLBACK")
        await client.call_tool("add", {"a": 1, "b": 2})
    failure, recovery = caplog.messages
    assert "locked" in failure
    assert "can be written again; lost records: 1" in recovery

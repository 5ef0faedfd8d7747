"""The store in a file: permissions, many processes, limits, and files of other programs."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from mcp_bridge._contracts.store import ListableStore
from mcp_bridge._storage.stores.sqlite import SqliteStore, StoreFileError
from tests.kits.clock import ManualClock
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS

WRITER = """
import sys, anyio
from pathlib import Path
from mcp_bridge._storage.stores.sqlite import SqliteStore

async def main():
    store = SqliteStore(Path(sys.argv[1]))
    print(sum([await store.add(f"shared{n}", b"", 100) for n in range(20)]))

anyio.run(main)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a new file in a new folder."""
    return tmp_path / "folder" / "kept.sqlite3"


def write_file(file: Path, data: bytes) -> Path:
    """Write data to a file, and return the file."""
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(data)
    return file


def read_file(file: Path) -> bytes:
    """Return the content of a file."""
    return file.read_bytes()


def list_names(folder: Path) -> list[Path]:
    """Return the names of the files in a folder."""
    return sorted(folder.iterdir())


async def test_values_are_stored_replaced_added_and_deleted(file: Path) -> None:
    store = SqliteStore(file)
    assert await store.get("a") is None
    await store.delete("a")
    await store.set("a", b"1", 10)
    await store.set("a", b"\x00\xff", 10)
    assert await store.get("a") == b"\x00\xff"
    assert [await store.add(key, b"3", 10) for key in "ab"] == [False, True]
    assert await store.keys("") == ["a", "b"]
    await store.delete("a")
    assert await store.add("a", b"", 10)
    assert [await store.get(key) for key in "ab"] == [b"", b"3"]
    assert isinstance(store, ListableStore)


async def test_keys_are_listed_by_any_prefix(file: Path) -> None:
    store = SqliteStore(file)
    for key in ("a/1", "a/2", "A/1", "a%", "%", "_/1", "ä/1"):
        await store.set(key, b"", 10)
    assert [sorted(await store.keys(prefix)) for prefix in ("a/", "%", "_", "ä", "none")] == [
        ["a/1", "a/2"],
        ["%"],
        ["_/1"],
        ["ä/1"],
        [],
    ]


async def test_values_exist_until_they_expire(file: Path) -> None:
    clock = ManualClock()
    store = SqliteStore(file, clock=clock)
    await store.set("short", b"", 10)
    await store.set("long", b"", 20)
    clock.now += 10
    assert (await store.get("short"), await store.keys("")) == (None, ["long"])
    assert await store.add("short", b"", 1)
    clock.now += 10
    assert await store.get("long") is None


async def test_the_file_is_created_with_the_first_value(file: Path) -> None:
    store = SqliteStore(file)
    store.check_file()
    await store.get("a")
    await store.keys("")
    await store.delete("a")
    assert not list_names(file.parent.parent)


async def test_only_the_owner_can_read_the_file_and_there_are_no_other_files(file: Path) -> None:
    await SqliteStore(file).set("a", b"1", 10)
    assert [(path.name, path.stat().st_mode & 0o777) for path in list_names(file.parent)] == [("kept.sqlite3", 0o600)]
    assert file.parent.stat().st_mode & 0o777 == 0o700


async def test_values_outlive_the_process_and_are_shared(file: Path) -> None:
    await SqliteStore(file).set("a", b"1", 10)
    assert await SqliteStore(file).get("a") == b"1"


async def test_a_full_store_evicts_the_values_that_expire_first(file: Path) -> None:
    store = SqliteStore(file, max_bytes=200_000)
    for n in range(150):
        await store.set(f"{n:03}", b"x" * 4000, 1000 + n)
    remaining = await store.keys("")
    assert len(read_file(file)) <= 200_000
    assert remaining[-1] == "149"
    assert 10 < len(remaining) < 60
    assert remaining == [f"{n:03}" for n in range(150 - len(remaining), 150)]


async def test_a_value_that_is_too_large_is_dropped_with_the_old_one(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore(file, max_bytes=100_000)
    await store.set("a", b"old", 10)
    assert not await store.add("a", b"x" * 100_000, 10)
    assert await store.get("a") == b"old"
    await store.set("a", b"x" * 100_000, 10)
    assert await store.get("a") is None
    assert "too large for the store" in caplog.text


async def test_concurrent_writes_succeed_and_one_of_the_adds_too(file: Path) -> None:
    added: list[bool] = []

    async def add() -> None:
        added.append(await SqliteStore(file).add("one", b"", 10))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(add)
    assert sorted(added) == [False] * 19 + [True]


def test_many_processes_make_the_file_and_write_it_together(file: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    output = [process.communicate(timeout=TIMEOUT)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sum(map(int, output)) == 20


@pytest.mark.parametrize("data", [b"no database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 5000])
async def test_a_damaged_file_is_reported_and_stays(data: bytes, file: Path) -> None:
    store = SqliteStore(write_file(file, data))
    for request in (store.get("a"), store.set("a", b"", 1), store.delete("a"), store.keys("")):
        with pytest.raises(StoreFileError, match=r"kept\.sqlite3 is not a store of mcp-bridge: .*Move it away"):
            await request
    with pytest.raises(StoreFileError):
        store.check_file()
    assert read_file(file) == data


async def test_a_database_of_something_else_stays_as_it_is(file: Path) -> None:
    write_file(file, b"")
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE mine (a)")
    before = read_file(file)
    with pytest.raises(StoreFileError, match="another application made it"):
        await SqliteStore(file).set("a", b"", 1)
    assert read_file(file) == before


async def test_a_file_of_another_version_is_rejected(file: Path) -> None:
    await SqliteStore(file).set("a", b"", 10)
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version = 2")
    with pytest.raises(StoreFileError, match="another version of mcp-bridge made it"):
        await SqliteStore(file).get("a")


async def test_an_empty_file_becomes_a_store(file: Path) -> None:
    store = SqliteStore(write_file(file, b""))
    assert await store.get("a") is None
    await store.set("a", b"1", 10)
    assert await store.get("a") == b"1"


async def test_an_unusable_file_is_an_error_with_its_path(file: Path) -> None:
    os.makedirs(file)
    with pytest.raises(OSError, match=r"the store in .*kept\.sqlite3 cannot be used"):
        await SqliteStore(file).get("a")


@BOTH_LOOPS
async def test_a_locked_file_delays_only_the_calls_that_use_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_bridge._storage.stores.sqlite.BUSY_TIMEOUT", 0.2)
    store = SqliteStore(file)
    await store.set("a", b"1", 100)
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        assert await store.get("a") == b"1"
        with pytest.raises(OSError, match="database is locked"):
            await store.set("a", b"2", 100)
        # The write cannot fail before it is cancelled.
        monkeypatch.setattr("mcp_bridge._storage.stores.sqlite.BUSY_TIMEOUT", TIMEOUT)
        with anyio.move_on_after(0.01) as scope:
            await store.set("a", b"3", 100)
        assert scope.cancelled_caught
        holder.execute("ROLLBACK")
    # The thread of the cancelled call may still write its own value.
    await store.set("b", b"4", 100)
    assert await store.get("b") == b"4"

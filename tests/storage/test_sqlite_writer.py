"""The writer of the store in a file is fast, and works on a full or read-only disk."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from mcp_bridge._storage.stores.sqlite import SqliteStore
from tests.kits.loops import BOTH_LOOPS

OWN_MOUNTS = ["unshare", "--user", "--map-root-user", "--mount"]
SMALL_DISK = """
import subprocess, sys
from pathlib import Path
import anyio
from mcp_bridge._storage.stores.sqlite import SqliteStore

DISK = Path(sys.argv[1])

def fill():
    with (DISK / "fill").open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass

async def main():
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", DISK], check=True)
    store = SqliteStore(DISK / "store.sqlite3")
    for number in range(20):
        await store.set(f"{number:02}", bytes(1000), 1000)
"""


def run_on_small_disk(steps: str, folder: Path) -> str:
    """Run the steps of a coroutine with a filled `store` on a separate small disk, and return the output."""
    if subprocess.run([*OWN_MOUNTS, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system allows no mounts of one's own")
    script = SMALL_DISK + "".join(f"    {line}\n" for line in steps.strip().splitlines()) + "\nanyio.run(main)\n"
    result = subprocess.run(
        [*OWN_MOUNTS, sys.executable, "-c", script, folder], check=False, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


FULL = """
with __import__("contextlib").suppress(OSError):
    fill()
await store.delete("07")
await store.delete("08")
print(len(await store.get("05")), await store.get("07"), len(await store.keys("")))
try:
    await store.set("more", bytes(300_000), 1000)
except OSError as error:
    print("cannot be used" in str(error))
(DISK / "fill").unlink()
await store.set("more", b"more", 1000)
print(await store.get("more"), len(await store.keys("")))
"""
READ_ONLY = """
while list(DISK.glob("*-wal")):
    await anyio.sleep(0.01)
subprocess.run(["mount", "-o", "remount,ro", DISK], check=True)
store.check_file()
print(len(await store.get("05")), len(await store.keys("")))
try:
    await store.delete("05")
except OSError as error:
    print("cannot be used" in str(error))
"""


def test_on_a_full_disk_values_can_be_read_and_deleted(tmp_path: Path) -> None:
    assert run_on_small_disk(FULL, tmp_path).splitlines() == ["1000 None 18", "True", "b'more' 19"]


def test_on_a_read_only_disk_values_are_read(tmp_path: Path) -> None:
    assert run_on_small_disk(READ_ONLY, tmp_path).splitlines() == ["1000 20", "True"]


@BOTH_LOOPS
async def test_writes_of_one_and_of_many_callers_are_fast(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite3")
    began = time.monotonic()

    async def write(caller: int) -> None:
        for number in range(50):
            assert await store.add(f"{caller}/{number}", b"value", 1000)

    await write(0)
    async with anyio.create_task_group() as tasks:
        for caller in range(1, 21):
            tasks.start_soon(write, caller)
    assert len(await store.keys("")) == 21 * 50
    # This takes 0.2 seconds; it takes 1.6 if each write opens the file, and 16 on a slow disk.
    assert time.monotonic() - began < 5


async def test_a_write_is_committed_before_its_caller_continues(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite3")

    async def write(number: int) -> None:
        await store.set(f"{number}", b"value", 1000)
        with contextlib.closing(sqlite3.connect(tmp_path / "store.sqlite3")) as reader:
            assert reader.execute("SELECT count(*) FROM kept WHERE key = ?", [f"{number}"]).fetchone() == (1,)

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(write, number)


async def test_a_failing_write_does_not_affect_the_others(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite3")
    failed: list[str] = []

    async def write(key: str) -> None:
        try:
            await store.set(key, b"value", 1000)
        except OSError:
            failed.append(key)

    await store.set("first", b"", 1000)
    with contextlib.closing(sqlite3.connect(tmp_path / "store.sqlite3")) as database:
        database.execute(
            "CREATE TRIGGER t BEFORE INSERT ON kept WHEN new.key = 'bad' BEGIN SELECT RAISE(FAIL, 'x'); END"
        )
        database.commit()
    async with anyio.create_task_group() as tasks:
        for key in ("bad", *"abcdefgh", "bad", *"ijklmnop"):
            tasks.start_soon(write, key)
    assert failed == ["bad", "bad"]
    assert sorted(await store.keys("")) == [*"abcdef", "first", *"ghijklmnop"]

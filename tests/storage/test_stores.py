"""Stores keep bytes by key for a time, within limits; a slow store of a user delays no other call."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import anyio
import pytest

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.store import Store
from mcp_bridge._engine.plugins import STORES, make_store
from mcp_bridge._storage.stores.fault_tolerant import FaultTolerantStore
from mcp_bridge._storage.stores.memory import ENTRY_OVERHEAD, MemoryStore
from tests.kits.clock import ManualClock
from tests.kits.constants import TIMEOUT

KIB = 1024
FOREIGN_STORES = """
from mcp_bridge._storage.stores.memory import MemoryStore

class Mine(MemoryStore):
    pass

def made():
    return Mine()

def broken():
    raise OSError("no server answers")

nothing = object
number = 5
"""


def compute_store_size(count: int, size: int = KIB) -> int:
    """Return the bytes of a store with room for this many values of a size, under keys of one letter."""
    return count * (size + 1 + ENTRY_OVERHEAD)


async def list_kept_keys(store: Store, keys: str) -> str:
    """Return the keys with a value."""
    return "".join([key for key in keys if await store.get(key) is not None])


async def test_a_value_exists_until_it_expires() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    await store.set("short", b"1", 10)
    await store.set("long", b"2", 20)
    clock.now += 9.9
    assert (await store.get("short"), await store.get("long")) == (b"1", b"2")
    clock.now += 0.2
    assert (await store.get("short"), await store.get("long")) == (None, b"2")
    clock.now += 10
    assert await store.get("long") is None


async def test_a_value_that_is_set_again_has_its_time_anew() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    await store.set("key", b"old", 10)
    clock.now += 8
    await store.set("key", b"new", 10)
    clock.now += 8
    assert await store.get("key") == b"new"
    await store.set("key", b"over", 0)
    assert await store.get("key") is None


async def test_the_first_of_two_adds_is_stored_until_it_expires() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    assert await store.add("key", b"first", 10)
    assert not await store.add("key", b"second", 10)
    assert await store.get("key") == b"first"
    clock.now += 10
    assert await store.add("key", b"third", 10)
    assert await store.get("key") == b"third"


async def test_one_of_many_concurrent_adds_succeeds() -> None:
    store = MemoryStore()
    won: list[int] = []

    async def add(number: int) -> None:
        if await store.add("key", str(number).encode(), 10):
            won.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(add, number)
    assert len(won) == 1
    assert await store.get("key") == str(won[0]).encode()


async def test_a_value_can_be_deleted_even_if_it_does_not_exist() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    await store.set("key", b"1", 10)
    await store.delete("key")
    await store.delete("key")
    assert await store.get("key") is None
    await store.set("key", b"1", 10)
    clock.now += 10
    await store.delete("key")
    assert await store.add("key", b"2", 10)


async def test_the_least_recently_used_value_is_evicted_first() -> None:
    store = MemoryStore(max_bytes=compute_store_size(3))
    for key in "abc":
        await store.set(key, bytes(KIB), 60)
    await store.set("d", bytes(KIB), 60)
    assert await list_kept_keys(store, "abcd") == "bcd"
    await store.set("b", bytes(KIB), 60)
    await store.set("e", bytes(2 * KIB), 60)
    assert await list_kept_keys(store, "abcde") == "be"


async def test_expired_values_are_evicted_before_others() -> None:
    clock = ManualClock()
    store = MemoryStore(max_bytes=compute_store_size(3), clock=clock)
    await store.set("a", bytes(KIB), 60)
    await store.set("b", bytes(KIB), 10)
    await store.set("c", bytes(KIB), 60)
    clock.now += 10
    await store.set("d", bytes(KIB), 60)
    assert await list_kept_keys(store, "abcd") == "acd"


async def test_deleted_and_replaced_values_free_their_space() -> None:
    store = MemoryStore(max_bytes=compute_store_size(2))
    await store.set("a", bytes(KIB), 60)
    for _ in range(10):
        await store.set("b", bytes(KIB), 60)
        await store.delete("b")
        await store.set("c", bytes(KIB), 60)
        await store.set("c", b"", 60)
        await store.delete("c")
    await store.set("b", bytes(KIB), 60)
    assert await list_kept_keys(store, "ab") == "ab"


async def test_tiny_values_are_bounded_too() -> None:
    store = MemoryStore(max_bytes=100 * ENTRY_OVERHEAD)
    for number in range(1000):
        await store.set(str(number), b"", 60)
    result = [number for number in range(1000) if await store.get(str(number)) is not None]
    assert 90 < len(result) < 100
    assert result == list(range(1000 - len(result), 1000))


async def test_a_value_larger_than_the_store_is_dropped_without_evicting_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore(max_bytes=compute_store_size(2))
    await store.set("a", b"small", 60)
    await store.set("b", b"old", 60)
    await store.set("b", bytes(compute_store_size(2)), 60)
    assert await list_kept_keys(store, "ab") == "a"
    assert not await store.add("c", bytes(compute_store_size(2)), 60)
    assert await list_kept_keys(store, "ac") == "a"
    assert "larger than the store" in caplog.text


class Failing:
    """A store that raises, or never responds."""

    def __init__(self, *, hangs: bool) -> None:
        self.hangs = hangs
        self.asked: list[str] = []

    async def _fail(self, what: str) -> None:
        self.asked.append(what)
        if self.hangs:
            await anyio.sleep_forever()
        raise ConnectionError("no server answers")

    async def get(self, key: str) -> bytes | None:
        await self._fail("get")
        return b"never"

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        await self._fail("set")

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        await self._fail("add")
        return True

    async def delete(self, key: str) -> None:
        await self._fail("delete")


@pytest.mark.parametrize("hangs", [True, False], ids=["hangs", "raises"])
async def test_a_failing_store_is_empty_and_its_failures_are_logged(
    hangs: bool, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Failing(hangs=hangs)
    store = FaultTolerantStore(failing, seconds=0.01)
    with anyio.fail_after(TIMEOUT):
        assert await store.get("key") is None
        await store.set("key", b"1", 60)
        assert await store.add("key", b"1", 60) is False
        await store.delete("key")
    assert failing.asked == ["get", "set", "add", "delete"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 4


async def test_a_store_that_works_is_as_it_was() -> None:
    inner = MemoryStore()
    store = FaultTolerantStore(inner)
    await store.set("key", b"1", 60)
    assert await store.get("key") == await inner.get("key") == b"1"
    assert not await store.add("key", b"2", 60)
    await store.delete("key")
    assert await inner.get("key") is None
    assert await store.add("key", b"2", 60)


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module with third-party stores."""
    (tmp_path / "foreign_stores.py").write_text(FOREIGN_STORES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "foreign_stores", raising=False)
    return "foreign_stores"


@pytest.mark.parametrize("name", STORES)
def test_each_store_made_by_a_name_is_a_new_one(name: str, tmp_path: Path) -> None:
    arguments = {"memory": (), "redis": ("redis://localhost", "prefix:"), "sqlite": (tmp_path / "file",)}[name]
    store = make_store(name, *arguments)
    assert isinstance(store, Store)
    assert store is not make_store(name, *arguments)


@pytest.mark.parametrize("attribute", ["Mine", "made"])
def test_a_third_party_store_is_made_by_a_class_or_a_function(third_party: str, attribute: str) -> None:
    assert type(make_store(f"{third_party}:{attribute}")).__name__ == "Mine"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("memry", "unknown store 'memry'. Known stores: memory, sqlite, sqlite:PATH, redis://HOST"),
        ("no_such_module:Store", "No module named 'no_such_module'"),
        ("{}:Missing", "has no 'Missing'"),
        ("{}:broken", "cannot be made: no server answers"),
        ("{}:nothing", "returns object, which is not a store. A store has the methods get, set, add and delete"),
        ("{}:number", "cannot be made: 'int' object is not callable"),
    ],
)
def test_a_store_that_cannot_be_made_is_reported(third_party: str, name: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_store(name.format(third_party))
    assert message in str(caught.value)

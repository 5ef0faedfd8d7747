"""The store in Redis: expiry, sharing between servers, and errors during an outage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from mcp_bridge._app import factory
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.store import ListableStore
from mcp_bridge._settings import load
from mcp_bridge._storage.stores.redis import RedisStore
from tests.kits.constants import TIMEOUT
from tests.kits.redis_server import RedisServer, redis_process, redis_server  # noqa: F401

PREFIX = "mcp-bridge:test:state:"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def store(redis_server: str) -> AsyncIterator[RedisStore]:  # noqa: F811
    store = RedisStore(redis_server, PREFIX)
    yield store
    await store.aclose()


async def test_a_value_exists_until_it_expires(store: RedisStore) -> None:
    await store.set("long", b"\x00\xff", 60)
    await store.set("short", b"1", 0.05)
    assert await store.get("long") == b"\x00\xff"
    with anyio.fail_after(TIMEOUT):
        while await store.get("short") is not None:  # noqa: ASYNC110 - Redis sends no notification
            await anyio.sleep(0.01)
    assert await store.get("long") == b"\x00\xff"


async def test_one_of_many_concurrent_adds_succeeds(store: RedisStore, redis_server: str) -> None:  # noqa: F811
    second_store = RedisStore(redis_server, PREFIX)
    won: list[int] = []

    async def add(number: int) -> None:
        if await (store, second_store)[number % 2].add("key", str(number).encode(), 60):
            won.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(add, number)
    assert len(won) == 1
    assert await second_store.get("key") == str(won[0]).encode()
    await second_store.aclose()


async def test_a_missing_value_can_be_deleted_and_a_deleted_one_added_again(store: RedisStore) -> None:
    await store.delete("key")
    await store.set("key", b"1", 60)
    await store.delete("key")
    assert await store.get("key") is None
    assert await store.add("key", b"2", 60)


@pytest.mark.parametrize("prefix", ["a/", "a*/", "[a]", "a\\", "ä/", "\ud800"])
async def test_keys_are_listed_by_the_exact_beginning_of_their_names(store: RedisStore, prefix: str) -> None:
    assert isinstance(store, ListableStore)
    for key in (f"{prefix}1", f"{prefix}2", "ab/3", "b", "aa", "a"):
        await store.set(key, b"", 60)
    assert sorted(await store.keys(prefix)) == [f"{prefix}1", f"{prefix}2"]


async def test_stores_with_other_prefixes_have_other_values(store: RedisStore, redis_server: str) -> None:  # noqa: F811
    second_store = RedisStore(redis_server, "mcp-bridge:other:state:")
    await store.set("key", b"1", 60)
    assert await second_store.get("key") is None
    assert await second_store.keys("") == []
    await second_store.aclose()


async def test_an_outage_of_redis_is_an_error_without_the_password_and_passes(
    redis_process: RedisServer,  # noqa: F811
) -> None:
    store = RedisStore(redis_process.url.replace("://", "://:do-not-show@"), PREFIX)
    redis_process.kill()
    for request in (store.get("key"), store.set("key", b"", 60), store.add("key", b"", 60), store.keys("")):
        with pytest.raises(OSError, match=rf"^Redis at 127\.0\.0\.1:{redis_process.port}: ") as error:
            await request
        assert "do-not-show" not in str(error.value)
    await store.aclose()
    store = RedisStore(redis_process.url, PREFIX)
    redis_process.start()
    await store.set("key", b"1", 60)
    redis_process.kill()
    redis_process.start()
    assert await store.get("key") == b"1"
    await store.aclose()


def test_a_store_serves_one_event_loop_after_another(redis_server: str) -> None:  # noqa: F811
    store = RedisStore(redis_server, PREFIX)

    async def write() -> None:
        await store.set("key", b"1", 60)
        await store.aclose()

    async def read() -> bytes | None:
        value = await store.get("key")
        await store.aclose()
        return value

    anyio.run(write)
    assert anyio.run(read) == b"1"


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        ("redis", ":1: state.store: the store `redis` has no address. Write `state: {store: redis://HOST}`"),
        ("http://ada:sesame@localhost", ":1: state.store: the store has an unknown address. Known addresses: redis://"),
        ("redis://localhost", None),
    ],
)
def test_the_address_of_the_store_is_checked(store: str, expected: str | None, tmp_path: Path) -> None:
    file = tmp_path / "mcp-bridge.yaml"
    file.write_text(f"state: {{store: '{store}'}}")
    if expected is None:
        factory.build_from_settings(load(file, {}))
        return
    with pytest.raises(ConfigError) as error:
        factory.build_from_settings(load(file, {}))
    assert expected in str(error.value)
    assert "sesame" not in str(error.value)

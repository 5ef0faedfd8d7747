"""A store in Redis for servers on several machines, and the client of Redis, also for the tasks and the rate limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast
from urllib.parse import urlsplit

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

CONNECTIONS = 16
"""The maximum number of connections of a client. Further requests wait for one."""
TIMEOUT = 5.0
"""Seconds within which Redis has to answer, and a connection has to be free."""
RETRIES = 3
"""How often a request is sent again. After an outage of Redis, the first use of each earlier connection fails."""
PAGE = 1000
"""How many keys Redis looks at for each request of a list."""
_PATTERN_ESCAPES = str.maketrans({character: f"\\{character}" for character in "\\*?[]^-"})
"""Escapes the characters that have a meaning in patterns of keys (SCAN)."""


class RedisStore:
    """A `Store` in Redis. Redis removes values when their time is over. Needs asyncio.

    The size of the store is not limited here, but by `maxmemory` of Redis, with the policy `noeviction`. The store
    marks used request states, and if Redis evicted a mark, the state could be used again. Every method raises OSError
    if Redis is unavailable.

    Args:
        prefix: The beginning of all keys in Redis.
    """

    def __init__(self, url: str, prefix: str) -> None:
        self._url = url
        self._prefix = prefix
        self._redis: Redis | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # A wrong URL raises ValueError here, and not only with the first request.
        connect_redis(url)

    async def get(self, key: str) -> bytes | None:
        async with self._connecting() as redis:
            return cast("bytes | None", await redis.get(self._encode(key)))

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        async with self._connecting() as redis:
            await redis.set(self._encode(key), value, px=_to_milliseconds(ttl))

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        async with self._connecting() as redis:
            return bool(await redis.set(self._encode(key), value, px=_to_milliseconds(ttl), nx=True))

    async def delete(self, key: str) -> None:
        async with self._connecting() as redis:
            await redis.unlink(self._encode(key))

    async def keys(self, prefix: str) -> list[str]:
        pattern = self._encode(prefix, _PATTERN_ESCAPES) + b"*"
        start = len(self._prefix.encode())
        async with self._connecting() as redis:
            names = {key async for key in redis.scan_iter(match=pattern, count=PAGE)}
        return [key[start:].decode(errors="surrogatepass") for key in names]

    async def aclose(self) -> None:
        """Close the connections. The next request opens new ones."""
        redis = self._redis
        self._redis = None
        if redis is not None:
            await redis.aclose()

    @asynccontextmanager
    async def _connecting(self) -> AsyncIterator[Redis]:
        loop = asyncio.get_running_loop()
        # Connections belong to one event loop.
        if self._redis is None or self._loop is not loop:
            self._redis = connect_redis(self._url)
            self._loop = loop
        try:
            yield self._redis
        except RedisError as error:
            raise OSError(f"Redis at {describe_address(self._url)}: {error}") from error

    def _encode(self, key: str, table: dict[int, str] | None = None) -> bytes:
        text = self._prefix + key
        return (text.translate(table) if table else text).encode(errors="surrogatepass")


def connect_redis(url: str) -> Redis:
    """Return a client. It connects when it is used. Raises ValueError for a wrong URL."""
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=CONNECTIONS,
        timeout=TIMEOUT,
        socket_timeout=TIMEOUT,
        socket_connect_timeout=TIMEOUT,
        retry=Retry(ConstantBackoff(0.05), RETRIES),
        retry_on_error=[RedisConnectionError],
    )
    return Redis.from_pool(pool)


def describe_address(url: str) -> str:
    """Return where a Redis is, without its credentials."""
    parts = urlsplit(url)
    return parts.path if parts.scheme == "unix" else f"{parts.hostname}:{parts.port or 6379}"


def _to_milliseconds(seconds: float) -> int:
    return max(round(seconds * 1000), 1)

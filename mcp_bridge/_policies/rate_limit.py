"""The policy `rate_limit`: how often calls may run, counted in memory, or in Redis for several servers."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
from anyio.lowlevel import current_token
from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr

from mcp_bridge._contracts.errors import ConfigError, RateLimited
from mcp_bridge._contracts.policy import CallNext, Forecast, Layer, Stage
from mcp_bridge._contracts.resource import ResourceTemplate
from mcp_bridge._contracts.running_call import PolicyDecision, RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._policies.base import CallPolicy, PolicyServices, add_single_schema, to_tuple
from mcp_bridge._runtime.tasks import close_at_end
from mcp_bridge._version import DISTRIBUTION

if TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.aio.strategies import RateLimiter as RedisLimiter

logger = logging.getLogger("mcp_bridge.policies")

MAX_EXACT = 1000
"""The largest limit for which the time of each call is kept. For larger ones, only the numbers of calls in two periods
are kept, so that a counter needs little memory."""
REDIS_TIMEOUT = 5.0
"""Seconds within which Redis must respond."""
REDIS_PAUSE = 5.0
"""Seconds for which this server counts alone after a failure of Redis."""


def _check_limit(value: str) -> str:
    try:
        from limits import parse_many
    except ImportError:
        hint = f"Run `pip install '{DISTRIBUTION}[rate-limit]'`"
        raise ConfigError("the policy `rate_limit` needs the package limits", hint=hint) from None
    try:
        parse_many(value)
    except ValueError:
        raise ValueError("expected limits such as '60/minute', or '10/second; 1000/day'") from None
    return value


class CallCounter:
    """Counts the calls of a policy in moving windows.

    The windows of limits up to MAX_EXACT are exact, and larger ones are estimated. While Redis is unavailable, calls
    are counted in memory. `policy` separates the counts from those of other policies.
    """

    def __init__(self, limit: str, policy: str, *, name: str, redis_url: str | None) -> None:
        from limits import parse_many
        from limits.strategies import MovingWindowRateLimiter, SlidingWindowCounterRateLimiter

        from mcp_bridge._policies.window_storage import WindowStorage

        storage = WindowStorage()
        # A limit that is repeated would count each call twice.
        self._limits = list(dict.fromkeys(parse_many(limit)))
        # The keys are whether a window is exact.
        self._local = {True: MovingWindowRateLimiter(storage), False: SlidingWindowCounterRateLimiter(storage)}
        self._prefix = f"mcp-bridge:{name}:limits"
        self._policy = policy
        self._redis_url = redis_url
        self._redis: Mapping[bool, RedisLimiter] | None = None
        self._client: Any = None
        self._loop: object = None
        self._paused_until = 0.0

    async def count(self, *key: str) -> tuple[RateLimitItem, float] | None:
        """Count a call. Return the limit that it exceeds, and the seconds until the next call may run."""
        return await self._find_exceeded((self._policy, *key), is_counted=True)

    async def find_exceeded(self, *key: str) -> tuple[RateLimitItem, float] | None:
        """Return the limit that a call would exceed, as `count` does, without counting it."""
        return await self._find_exceeded((self._policy, *key), is_counted=False)

    async def aclose(self) -> None:
        """Close the connections to Redis. The next call opens new ones."""
        client = self._client
        self._client = None
        self._redis = None
        if client is not None:
            await client.aclose()

    async def _find_exceeded(self, key: Sequence[str], *, is_counted: bool) -> tuple[RateLimitItem, float] | None:
        if self._redis_url is not None and time.monotonic() >= self._paused_until:
            redis = self._open_limiters(self._redis_url)
            try:
                with anyio.fail_after(REDIS_TIMEOUT):
                    return await self._ask_redis(redis, key, is_counted=is_counted)
            except Exception as error:
                # `redis` defines the classes of its errors, and is imported only if it is used.
                self._paused_until = time.monotonic() + REDIS_PAUSE
                logger.warning("this server counts rate limits on its own, because Redis failed: %r", error)
        for item in self._limits:
            is_exact = item.amount <= MAX_EXACT
            limiter = self._local[is_exact]
            if is_counted:
                has_room = limiter.hit(item, *key)
            else:
                has_room = limiter.test(item, *key)
            if not has_room:
                reset_time = limiter.get_window_stats(item, *key)[0]
                # In an exact window, it is the time of the storage plus the period. The strategy of the others adds
                # the remaining seconds to the time of the system.
                now = time.monotonic() if is_exact else time.time()
                return item, _compute_wait(item, reset_time - now)
        return None

    async def _ask_redis(
        self, limiters: Mapping[bool, RedisLimiter], key: Sequence[str], *, is_counted: bool
    ) -> tuple[RateLimitItem, float] | None:
        for item in self._limits:
            limiter = limiters[item.amount <= MAX_EXACT]
            if is_counted:
                has_room = await limiter.hit(item, *key)
            else:
                has_room = await limiter.test(item, *key)
            if not has_room:
                reset_time = (await limiter.get_window_stats(item, *key))[0]
                return item, _compute_wait(item, reset_time - time.time())
        return None

    def _open_limiters(self, url: str) -> Mapping[bool, RedisLimiter]:
        # Connections belong to one event loop.
        if self._redis is None or self._loop != current_token():
            from limits.aio.storage import RedisStorage
            from limits.aio.strategies import MovingWindowRateLimiter, SlidingWindowCounterRateLimiter

            from mcp_bridge._storage.stores.redis import connect_redis

            self._client = connect_redis(url)
            # The storage connects through this pool. It uses the URL only to choose the class of its client.
            options: dict[str, Any] = {"key_prefix": self._prefix, "connection_pool": self._client.connection_pool}
            storage = RedisStorage("async+redis://localhost:6379", implementation="redispy", **options)
            self._redis = {True: MovingWindowRateLimiter(storage), False: SlidingWindowCounterRateLimiter(storage)}
            self._loop = current_token()
        return self._redis


class RateLimitPolicy(CallPolicy):
    """Limit how often calls that match may run. Further calls fail, and the error says when to retry."""

    checks_calls = True
    name = "rate_limit"
    stage = Stage.ADMIT
    is_passive = True
    may_ask = False

    limit: Annotated[str, AfterValidator(_check_limit)] = Field(
        description="The number of calls per `second`, `minute`, `hour` or `day`, such as `60/minute` or `5 per 10 "
        "seconds`; several limits are separated by `;`. The period is a moving window."
    )
    per: Annotated[tuple[Literal["tool", "principal"], ...], BeforeValidator(to_tuple)] = Field(
        default=("tool", "principal"),
        json_schema_extra=add_single_schema,
        description="What is counted separately: each `tool` (also each resource, resource template and prompt), "
        "each `principal`, or both. `[]` counts all calls together.",
    )
    _counter: CallCounter = PrivateAttr()
    _is_shared: bool = PrivateAttr(default=False)

    def use_services(self, services: PolicyServices) -> None:
        """Make the counter, in Redis if the settings have one."""
        self._is_shared = services.redis_url is not None
        digest = hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]
        self._counter = CallCounter(self.limit, digest, name=services.name, redis_url=services.redis_url)

    async def run(self) -> None:
        """Close the connections to Redis when cancelled."""
        await close_at_end(self._counter.aclose)

    def bind(self, entry: Any) -> Layer | None:
        """Return a layer for entries that match."""
        if not self.applies_to_entry(entry):
            return None
        return partial(self._limit_call, self._counter, _find_template(entry))

    async def _limit_call(
        self, counter: CallCounter, template: str | None, call: ToolCall, ctx: RunningCall, call_next: CallNext
    ) -> ToolResult:
        """Count the call. Raises RateLimited."""
        if self.applies_to_call(call, ctx):
            limit = await counter.count(*self._build_key(template, call, ctx))
            if limit is not None:
                reason = self._describe_limit(*limit)
                ctx.record_decision(PolicyDecision(self.name, "denied", reason=reason))
                raise RateLimited(f"{call.kind.capitalize()} '{call.name}' did not run: {reason}.")
        return await call_next(call, ctx)

    async def predict(self, entry: Any, call: ToolCall, ctx: RunningCall) -> Forecast:
        """Predict whether the call exceeds a limit. Counts in the memory of a running server are unknown."""
        if not self.applies_to_call(call, ctx):
            return Forecast("passes")
        if not self._is_shared:
            return Forecast("passes", f"unless the running server has already counted {self.limit}")
        limit = await self._counter.find_exceeded(*self._build_key(_find_template(entry), call, ctx))
        if limit is None:
            return Forecast("passes")
        return Forecast("stops", self._describe_limit(*limit))

    def _build_key(self, template: str | None, call: ToolCall, ctx: RunningCall) -> tuple[str, str]:
        """Return the name of a tool and a principal, each empty if it is not counted separately."""
        name = principal = ""
        if "tool" in self.per:
            name = f"{call.kind}:{template or call.name}"
        if "principal" in self.per:
            principal = ctx.principal or ""
        return name, principal

    def _describe_limit(self, item: RateLimitItem, wait: float) -> str:
        subject = " and ".join(f"for each {name}" for name in self.per) or "for all callers"
        period = item.GRANULARITY.name
        if item.multiples > 1:
            period = f"{item.multiples} {period}s"
        unit = "call" if item.amount == 1 else "calls"
        return f"at most {item.amount} {unit} per {period} {subject}. Retry in {wait:.0f} seconds"


def _find_template(entry: Any) -> str | None:
    """Return the URI template of an entry, or None.

    Its URIs are counted together. Otherwise, a client could exceed the limit with a different URI in each call.
    """
    return entry.uri_template if isinstance(entry, ResourceTemplate) else None


def _compute_wait(item: RateLimitItem, seconds: float) -> float:
    """Return the wait in whole seconds, at most the period: the clocks of servers that share a Redis may differ."""
    return float(min(max(math.ceil(seconds), 1), item.get_expiry()))

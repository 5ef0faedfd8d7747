"""The storage of rate limits in memory decides like the storage of the package limits, and removes unused keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import limits.storage.memory
import limits.strategies
import pytest
from hypothesis import given
from hypothesis import strategies as st
from limits import RateLimitItem, RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter, RateLimiter, SlidingWindowCounterRateLimiter

from mcp_bridge._policies import window_storage
from mcp_bridge._policies.window_storage import MIN_KEYS, WindowStorage

# No sum of steps is a whole period, where `test` and `hit` of the package disagree.
STEP = 0.7071
STRATEGIES = [MovingWindowRateLimiter, SlidingWindowCounterRateLimiter]
STEPS = st.lists(st.tuples(st.integers(0, 50).map(STEP.__mul__), st.sampled_from("ab")), max_size=60)


@contextmanager
def stop_clock() -> Iterator[Callable[[float], None]]:
    """Stop the time of rate limits, and yield a function that advances it by seconds.

    The event loops in other threads keep their time. Otherwise their new timers would never fire.
    """
    now = 1_800_000_000.0

    def advance(seconds: float) -> None:
        nonlocal now
        now += seconds

    clock = SimpleNamespace(time=lambda: now, monotonic=lambda: now)
    with ExitStack() as patches:
        for module in (window_storage, limits.strategies, limits.storage.memory):
            patches.enter_context(patch.object(module, "time", clock))
        yield advance


def decide(limiter: RateLimiter, item: RateLimitItem, steps: Sequence[tuple[float, str]]) -> list[object]:
    """Return for each call whether it would run, whether it runs, and how many are left then."""
    decisions: list[object] = []
    with stop_clock() as advance:
        for seconds, key in steps:
            advance(seconds)
            decisions.append((limiter.test(item, key), limiter.hit(item, key)))
            decisions.append(limiter.get_window_stats(item, key).remaining)
    return decisions


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(steps=STEPS, most=st.integers(1, 8))
def test_the_storage_decides_like_the_storage_of_the_package(
    strategy: type[RateLimiter], steps: Sequence[tuple[float, str]], most: int
) -> None:
    item = RateLimitItemPerMinute(most)
    expected = MemoryStorage()
    expected.timer.cancel()
    assert decide(strategy(WindowStorage()), item, steps) == decide(strategy(expected), item, steps)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_keys_without_calls_in_their_windows_are_removed(strategy: type[RateLimiter]) -> None:
    storage, item = WindowStorage(), RateLimitItemPerMinute(5)
    limiter = strategy(storage)
    with stop_clock() as advance:
        for number in range(MIN_KEYS):
            assert limiter.hit(item, str(number))
        assert len(storage) == MIN_KEYS
        advance(121)
        assert limiter.hit(item, "new")
    assert len(storage) == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_cleared_calls_do_not_count(strategy: type[RateLimiter]) -> None:
    storage, item = WindowStorage(), RateLimitItemPerMinute(1)
    limiter = strategy(storage)
    assert [limiter.hit(item, key) for key in "aab"] == [True, False, True]
    limiter.clear(item, "a")
    assert [limiter.hit(item, key) for key in "ab"] == [True, False]
    assert storage.check()
    assert storage.reset() == 2
    assert limiter.hit(item, "b")

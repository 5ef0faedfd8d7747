"""Windows of calls in memory: when the next call may run, as time passes."""

from __future__ import annotations

import pytest

from mcp_bridge.middleware.call_windows import MIN_KEYS, CallWindows


class Clock:
    """The time, in seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("mcp_bridge.middleware.call_windows.time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def count(windows: CallWindows, key: str = "a") -> float:
    return windows.find_wait((key,), is_counted=True)


def test_a_call_may_run_as_soon_as_the_oldest_has_left_the_window(clock: Clock) -> None:
    windows = CallWindows(2, 60)
    assert count(windows) == 0
    clock.now += 20
    assert [count(windows), count(windows), count(windows, "b")] == [0, 40, 0]
    clock.now += 40
    assert [count(windows), count(windows)] == [0, 20]


def test_a_question_does_not_count(clock: Clock) -> None:
    windows = CallWindows(1, 60)
    assert [windows.find_wait(("a",), is_counted=False) for _ in range(3)] == [0, 0, 0]
    assert [count(windows), windows.find_wait(("a",), is_counted=False)] == [0, 60]


def test_a_limit_of_no_calls_allows_none(clock: Clock) -> None:
    assert count(CallWindows(0, 60)) == 60


def test_of_a_large_limit_a_part_of_the_calls_before_counts(clock: Clock) -> None:
    windows = CallWindows(2000, 100)
    assert [count(windows) for _ in range(2001)] == [0] * 2000 + [100]
    clock.now += 125  # three quarters of the period before are in the window
    assert [count(windows) for _ in range(501)] == [0] * 500 + [pytest.approx(0)]
    clock.now += 25  # half of it
    assert [bool(count(windows)) for _ in range(501)] == [False] * 500 + [True]
    clock.now += 200  # the calls are in neither period
    assert not any(count(windows) for _ in range(2000))


def test_the_wait_of_a_large_limit_is_long_enough(clock: Clock) -> None:
    windows = CallWindows(2000, 100)
    while not count(windows):
        pass
    clock.now += 110
    while not (wait := count(windows)):
        pass
    clock.now += wait + 1
    assert count(windows) == 0


@pytest.mark.parametrize("most", [1, 2000])
def test_keys_are_forgotten_once_their_calls_have_left_the_window(clock: Clock, most: int) -> None:
    windows = CallWindows(most, 60)
    for number in range(MIN_KEYS):
        count(windows, str(number))
    clock.now += 121
    count(windows, "new")
    assert len(windows) == 1

"""Waits for conditions and events of tests. Each wait has a timeout, which only ends tests that fail."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import anyio

from tests.kits.constants import TIMEOUT


def wait_until(get_value: Callable[[], Any], timeout: float = TIMEOUT) -> Any:
    """Wait until a function returns a true value, and return the value."""
    end = time.monotonic() + timeout
    while not (value := get_value()):
        assert time.monotonic() < end, "it never became true"
        time.sleep(0.02)
    return value


async def wait_until_true(is_true: Callable[[], Any]) -> None:
    """Wait until a function returns a true value, while other tasks run."""
    with anyio.fail_after(TIMEOUT):
        while not is_true():  # noqa: ASYNC110 - the conditions have no events
            await anyio.sleep(0.01)


async def wait_for_event(event: anyio.Event) -> None:
    """Wait for an event that must happen."""
    with anyio.fail_after(TIMEOUT):
        await event.wait()

"""Simulated computers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from tests.kits.platforms.simulated_systems import SimulatedComputer, SystemName, make_computer


def simulate(system: SystemName) -> AbstractContextManager[SimulatedComputer]:
    """Return a new computer. Skip the test on other systems than Linux, which simulates them."""
    if sys.platform != "linux":
        pytest.skip("Linux simulates the other systems")
    return make_computer(system)


@pytest.fixture
def computer(request: pytest.FixtureRequest) -> Iterator[SimulatedComputer]:
    """A new computer with the system of the parameter."""
    with simulate(request.param) as new_computer:
        yield new_computer


@pytest.fixture
def windows() -> Iterator[SimulatedComputer]:
    """A new computer with Windows."""
    with simulate("win32") as new_computer:
        yield new_computer


@pytest.fixture
def macos() -> Iterator[SimulatedComputer]:
    """A new computer with macOS."""
    with simulate("darwin") as new_computer:
        yield new_computer

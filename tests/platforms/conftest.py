"""Simulated computers."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.kits.platforms.simulated_systems import SimulatedComputer, make_computer


@pytest.fixture
def computer(request: pytest.FixtureRequest) -> Iterator[SimulatedComputer]:
    """A new computer with the system of the parameter."""
    if sys.platform != "linux":
        pytest.skip("Linux simulates the other systems")
    with make_computer(request.param) as made:
        yield made


@pytest.fixture
def windows() -> Iterator[SimulatedComputer]:
    """A new computer with Windows."""
    if sys.platform != "linux":
        pytest.skip("Linux simulates the other systems")
    with make_computer("win32") as made:
        yield made


@pytest.fixture
def macos() -> Iterator[SimulatedComputer]:
    """A new computer with macOS."""
    if sys.platform != "linux":
        pytest.skip("Linux simulates the other systems")
    with make_computer("darwin") as made:
        yield made

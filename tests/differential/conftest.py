"""Fixtures of the differential tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Return trio, because only trio notices immediately when no task can continue."""
    return "trio"


@pytest.fixture(autouse=True)
def disable_logging() -> Iterator[None]:
    """Disable logging, because both servers log every crash of a tool."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)

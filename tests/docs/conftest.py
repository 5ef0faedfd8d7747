"""Commands of the docs run in forks of one process, which has imported what they need."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kits.docs.forked_commands import forked_commands


@pytest.fixture(scope="session")
def forked() -> Iterator[list[str]]:
    """The beginning of a command: `mcp_bridge` or a script follows."""
    with tempfile.TemporaryDirectory(prefix="fc") as folder, forked_commands(Path(folder)) as command:
        yield command

"""The user whose clients are configured by tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.clients.clients_running import ClientHome, make_home

SECRET = "a-value-that-no-output-may-contain"


@pytest.fixture
def user(tmp_path: Path) -> ClientHome:
    """Return a user with a home folder and a project with tools."""
    return make_home(tmp_path)


@pytest.fixture
def user_with_secret(tmp_path: Path) -> ClientHome:
    """Return a user with settings that need a variable."""
    machine = make_home(tmp_path, SHELF_KEY=SECRET)
    machine.settings.write_text(
        "name: shelf\nstate: {keys: '${SHELF_KEY}'}\nsources:\n  - {type: python, path: tools.py}\n"
    )
    return machine

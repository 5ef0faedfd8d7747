"""The folders of the user follow the conventions of each system."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcp_bridge._runtime.user_folders import get_data_folder, get_state_folder


@pytest.mark.parametrize(
    ("platform", "variables", "state", "data"),
    [
        ("linux", {}, "HOME/.local/state", "HOME/.local/share"),
        ("linux", {"XDG_STATE_HOME": "/a", "XDG_DATA_HOME": "/b"}, "/a", "/b"),
        ("linux", {"XDG_STATE_HOME": "a", "XDG_DATA_HOME": ""}, "HOME/.local/state", "HOME/.local/share"),
        ("darwin", {}, "HOME/Library/Application Support", "HOME/Library/Application Support"),
        ("win32", {}, "HOME/AppData/Local", "HOME/AppData/Local"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local", "/local"),
    ],
)
def test_the_folders_are_those_of_the_system(
    platform: str,
    variables: dict[str, str],
    state: str,
    data: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert get_state_folder() == Path(state.replace("HOME", str(tmp_path))) / "mcp-bridge"
    assert get_data_folder() == Path(data.replace("HOME", str(tmp_path))) / "mcp-bridge"

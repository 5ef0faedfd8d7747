"""The lock file of a settings file is next to it, or in the state folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bridge._upstream.trust import definition_lock
from mcp_bridge._upstream.trust.definition_lock import DefinitionLock
from mcp_bridge._upstream.trust.fingerprints import DefinitionKey

READ, WRITE = DefinitionKey("tools", "read"), DefinitionKey("tools", "write")
DEFINITION = {"name": "read", "description": "Read a file."}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path.resolve() / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return home


@pytest.mark.parametrize(
    "name",
    [
        ".claude.json",
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
        "AppData/Roaming/Claude/claude_desktop_config.json",
        "project/.cursor/mcp.json",
    ],
)
def test_nothing_is_written_into_the_folders_of_clients(home: Path, name: str) -> None:
    file = home / name
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    lock = DefinitionLock(file)
    lock.accept_definitions("files", {READ: DEFINITION})
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert DefinitionLock(file).read_server("files") == {READ: DEFINITION}


@pytest.mark.parametrize("name", ["project/gateway.yaml", "project/.mcp.json", "gateway.yaml"])
def test_the_lock_file_is_next_to_settings_in_folders_of_the_user(home: Path, name: str) -> None:
    file = home / name
    assert not file.parent.exists()
    file.parent.mkdir(parents=True)
    assert DefinitionLock(file).path == file.with_name(f"{file.name}.lock.json")


def test_an_existing_lock_file_next_to_the_settings_is_used(home: Path) -> None:
    file = home / ".dotfiles" / "gateway.yaml"
    file.parent.mkdir(parents=True)
    beside = file.with_name("gateway.yaml.lock.json")
    beside.write_text('{"version": 1, "servers": {}}')
    assert DefinitionLock(file).path == beside


def test_settings_that_differ_only_in_the_suffix_have_different_lock_files(home: Path) -> None:
    home.mkdir(parents=True)
    yaml, second = DefinitionLock(home / "gateway.yaml"), DefinitionLock(home / "gateway.json")
    yaml.accept_definitions("files", {READ: DEFINITION})
    assert second.read_server("files") is None


def test_a_lock_file_is_parsed_once_until_it_is_replaced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir(parents=True)
    DefinitionLock(home / "gateway.yaml").accept_definitions("files", {READ: DEFINITION})
    lock, parsed = DefinitionLock(home / "gateway.yaml"), list[bytes]()
    parse = definition_lock.json.loads
    monkeypatch.setattr(definition_lock.json, "loads", lambda data: parsed.append(data) or parse(data))
    assert [lock.read_server(name) for name in ("files", "other", "files")] == [
        {READ: DEFINITION},
        None,
        {READ: DEFINITION},
    ]
    assert len(parsed) == 1
    DefinitionLock(home / "gateway.yaml").accept_definitions("other", {READ: DEFINITION})
    assert lock.read_server("other") == {READ: DEFINITION}

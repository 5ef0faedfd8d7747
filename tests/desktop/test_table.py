"""Each row of the table of clients agrees with the documentation of the client."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.client import Machine, ServerEntry
from mcp_bridge._desktop.entries import (
    build_entry_value,
    can_reference_variables,
    find_references,
    format_reference,
    parse_entry_command,
)
from mcp_bridge._desktop.exports import format_snippet
from mcp_bridge._desktop.servers import parse_servers
from mcp_bridge._desktop.table import CLIENTS
from mcp_bridge._protocol.dialects.table import PROFILES
from tests.kits.paths import ROOT

PAGE = ROOT / "docs" / "clients.md"
ENTRY = ServerEntry(name="shelf", command="/opt/mcp-bridge", args=("serve", "/srv/shelf.yaml"), secrets=("TOKEN",))
PLAIN = ServerEntry(name="shelf", command="/opt/mcp-bridge", args=("serve", "/srv/shelf.yaml"))
_COMMON = {"command": "/opt/mcp-bridge", "args": ["serve", "/srv/shelf.yaml"]}
SHAPES: dict[str, dict[str, Any]] = {
    "claude-desktop": _COMMON,
    "claude-code": {"type": "stdio", **_COMMON, "env": {"TOKEN": "${TOKEN}"}},
    "vscode": {"type": "stdio", **_COMMON, "env": {"TOKEN": "${env:TOKEN}"}},
    "cursor": {**_COMMON, "env": {"TOKEN": "${env:TOKEN}"}},
    "windsurf": {**_COMMON, "env": {"TOKEN": "${env:TOKEN}"}},
    "zed": _COMMON,
    "codex": {**_COMMON, "required": True, "env_vars": ["TOKEN"]},
    "gemini-cli": {**_COMMON, "env": {"TOKEN": "${TOKEN}"}},
    "goose": {
        "enabled": True,
        "type": "stdio",
        "name": "shelf",
        "description": "Tools served by mcp-bridge",
        "cmd": "/opt/mcp-bridge",
        "args": ["serve", "/srv/shelf.yaml"],
        "env_keys": ["TOKEN"],
        "timeout": 300,
    },
    "opencode": {
        "type": "local",
        "command": ["/opt/mcp-bridge", "serve", "/srv/shelf.yaml"],
        "enabled": True,
        "environment": {"TOKEN": "{env:TOKEN}"},
    },
    "copilot-cli": {"type": "local", **_COMMON, "env": {"TOKEN": "${TOKEN}"}, "tools": ["*"]},
    "lm-studio": _COMMON,
    "cline": {**_COMMON, "env": {"TOKEN": "${env:TOKEN}"}},
    "continue": {"name": "shelf", **_COMMON, "env": {"TOKEN": "${{ secrets.TOKEN }}"}},
    "visual-studio": {"type": "stdio", **_COMMON},
    "kiro": {**_COMMON, "env": {"TOKEN": "${TOKEN}"}},
    "antigravity": _COMMON,
    "junie": _COMMON,
    "qwen-code": {**_COMMON, "env": {"TOKEN": "${TOKEN}"}, "alwaysLoadTools": True},
    "amp": {**_COMMON, "env": {"TOKEN": "${TOKEN}"}},
    "crush": {"type": "stdio", **_COMMON, "env": {"TOKEN": "${TOKEN}"}},
    "warp": {**_COMMON, "env": {"TOKEN": "${TOKEN}"}},
    "librechat": {"type": "stdio", **_COMMON, "env": {"TOKEN": "${TOKEN}"}},
    "roo-code": {**_COMMON, "env": {"TOKEN": "${env:TOKEN}"}},
    "kilo-code": {
        "type": "local",
        "command": ["/opt/mcp-bridge", "serve", "/srv/shelf.yaml"],
        "enabled": True,
        "environment": {"TOKEN": "{env:TOKEN}"},
    },
}


def test_each_client_has_its_shape_of_an_entry() -> None:
    assert set(SHAPES) == set(CLIENTS)


def test_the_clients_of_installing_and_of_linting_have_the_same_names() -> None:
    assert CLIENTS.keys() == PROFILES.keys()
    assert {name: client.title for name, client in CLIENTS.items()} == {
        name: profile.title for name, profile in PROFILES.items()
    }


@pytest.mark.parametrize("name", SHAPES)
def test_an_entry_has_the_clients_shape_and_its_command_is_read_back(name: str) -> None:
    client = CLIENTS[name]
    value = build_entry_value(client, ENTRY)
    assert value == SHAPES[name]
    command = parse_entry_command(client, value)
    assert command.argv == ("/opt/mcp-bridge", "serve", "/srv/shelf.yaml")
    assert ("TOKEN" in command.env or "TOKEN" in command.names) == can_reference_variables(client)


def test_without_secrets_nothing_is_written_about_variables() -> None:
    written = {name: build_entry_value(client, PLAIN) for name, client in CLIENTS.items()}
    about = {"env", "environment", "env_vars", "env_keys"}
    assert [name for name, value in written.items() if about & set(value)] == []


@pytest.mark.parametrize("name", [name for name, client in CLIENTS.items() if client.reference_syntax is not None])
def test_references_are_read_as_they_are_written_and_a_path_like_a_reference_is_rejected(name: str) -> None:
    client = CLIENTS[name]
    assert find_references(client, {"env": {"A": [f"x{format_reference(client, 'TOKEN')}y"]}}) == ("TOKEN",)
    assert find_references(client, "nothing of that kind, $ { 5 }") == ()
    odd = ServerEntry(
        name="shelf", command="/opt/mcp-bridge", args=("serve", f"/srv/{format_reference(client, 'HOME')}/a.yaml")
    )
    with pytest.raises(ConfigError, match="reads as a reference"):
        build_entry_value(client, odd)


def test_every_client_has_next_steps() -> None:
    for name, client in CLIENTS.items():
        assert client.title
        assert client.next_steps.endswith(".")
        assert client.secrets_advice.endswith(".")
        assert re.fullmatch(r"[a-z-]+", name)
        assert client.places[0].scope == "user" or len(client.places) == 1


@pytest.mark.parametrize("value", [{}, {"command": 5}, {"command": "x", "args": "y", "env": []}, {"url": "https://x"}])
@pytest.mark.parametrize("name", ["claude-code", "codex", "goose", "opencode", "continue"])
def test_an_entry_in_another_form_has_no_invented_command(name: str, value: dict[str, Any]) -> None:
    command = parse_entry_command(CLIENTS[name], value)
    assert set(command.argv) <= {"x"}
    assert not command.env


@pytest.mark.parametrize("name", CLIENTS)
def test_the_docs_show_the_written_entries(name: str) -> None:
    client = CLIENTS[name]
    place = client.places[0]
    section = re.search(rf"^## {client.title}\n(.*?)^## ", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert section is not None
    snippet = re.search(r"^```\w+\n(.*?)^```$", section[1], re.M | re.S)
    assert snippet is not None
    entry = ServerEntry(name="shelf", command="/path/to/mcp-bridge", args=("serve", "/path/to/tools.py"))
    where = Machine(system="linux", home=Path("/home"), environ={}, folder=Path("/home"))
    if place.script:
        assert snippet[1] == format_snippet(place, entry, build_entry_value(client, entry), where)
    else:
        assert parse_servers(place, snippet[1], PAGE, where) == {"shelf": build_entry_value(client, entry)}
    for word in (f"mcp-bridge install {name} ", f"mcp-bridge uninstall {name}"):
        assert word in section[1]
    assert all(f"--scope {other.scope}" in section[1] for other in client.places[1:])

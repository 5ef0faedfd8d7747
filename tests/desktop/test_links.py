"""Install links contain the entry without its secrets."""

from __future__ import annotations

import base64
import json
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.client import ServerEntry
from mcp_bridge._desktop.exports import build_install_link, list_linkable_clients

ENTRY = ServerEntry(name="my shelf", command="/a b/mcp-bridge", args=("serve", "/ü/&x=1.yaml"), secrets=("TOKEN",))
PLAIN = ServerEntry(name="shelf", command="uvx", args=("--from", "mcp-tool-bridge", "mcp-bridge", "serve", "/a b"))


@pytest.mark.parametrize(("name", "scheme"), [("cursor", "cursor"), ("lm-studio", "lmstudio")])
def test_a_link_with_base64_holds_the_entry(name: str, scheme: str) -> None:
    parts = urlsplit(build_install_link(name, ENTRY))
    query = parse_qs(parts.query, strict_parsing=True)
    assert parts.scheme == scheme
    assert query["name"] == ["my shelf"]
    config = json.loads(base64.b64decode(query["config"][0]))
    assert config["command"] == "/a b/mcp-bridge"
    assert config["args"] == ["serve", "/ü/&x=1.yaml"]
    assert config.get("env", {"TOKEN": "${env:TOKEN}"}) == {"TOKEN": "${env:TOKEN}"}


def test_the_link_for_cursor_is_the_documented_one() -> None:
    assert build_install_link("cursor", ENTRY).startswith(
        "cursor://anysphere.cursor-deeplink/mcp/install?name=my%20shelf&config="
    )


def test_the_link_for_vscode_is_one_quoted_object() -> None:
    head, _, quoted = build_install_link("vscode", ENTRY).partition("?")
    assert head == "vscode:mcp/install"
    assert json.loads(unquote(quoted)) == {
        "name": "my shelf",
        "type": "stdio",
        "command": "/a b/mcp-bridge",
        "args": ["serve", "/ü/&x=1.yaml"],
        "env": {"TOKEN": "${env:TOKEN}"},
    }


def test_the_link_for_visual_studio_has_a_scheme_of_its_own() -> None:
    head, _, quoted = build_install_link("visual-studio", PLAIN).partition("?")
    assert head == "vsweb+mcp:/install"
    assert json.loads(unquote(quoted)) == {"name": "shelf", "type": "stdio", "command": "uvx", "args": [*PLAIN.args]}


def test_the_link_for_goose_has_a_parameter_for_each_word() -> None:
    entry = ServerEntry(name=PLAIN.name, command=PLAIN.command, args=PLAIN.args, secrets=("TOKEN",))
    query = parse_qs(urlsplit(build_install_link("goose", entry)).query, strict_parsing=True)
    assert query["cmd"] == ["uvx"]
    assert query["arg"] == list(PLAIN.args)
    assert query["env"] == ["TOKEN"]


def test_goose_takes_no_path_from_a_link() -> None:
    with pytest.raises(ConfigError, match=r"'/a b/mcp-bridge'\. Its links can start only these programs: cu, "):
        build_install_link("goose", ENTRY)


@pytest.mark.parametrize("name", ["zed", "claude-desktop", "unknown-client"])
def test_other_clients_have_no_links(name: str) -> None:
    with pytest.raises(ConfigError, match="There are links for: vscode, visual-studio, cursor, goose, lm-studio"):
        build_install_link(name, ENTRY)


def test_these_clients_have_links() -> None:
    assert list_linkable_clients() == ("vscode", "visual-studio", "cursor", "goose", "lm-studio")

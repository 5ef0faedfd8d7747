"""`install --env` passes variables to the server, and `install URL` adds a running server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_bridge._desktop.entries import can_reference_variables
from mcp_bridge._desktop.locations import detect_machine
from mcp_bridge._desktop.servers import parse_servers
from mcp_bridge._desktop.table import CLIENTS
from tests.kits.clients.clients_running import FILES, ClientHome

URL = "http://127.0.0.1:8808/mcp"
TOKEN = {"Authorization": "Bearer ${SHELF_TOKEN}"}
EDITOR_TOKEN = {"Authorization": "Bearer ${env:SHELF_TOKEN}"}
REMOTE: dict[str, dict[str, Any]] = {
    "claude-code": {"type": "http", "url": URL, "headers": TOKEN},
    "vscode": {"type": "http", "url": URL, "headers": EDITOR_TOKEN},
    "cursor": {"url": URL, "headers": EDITOR_TOKEN},
    "windsurf": {"serverUrl": URL, "headers": EDITOR_TOKEN},
    "codex": {"url": URL, "required": True, "bearer_token_env_var": "SHELF_TOKEN"},
    "gemini-cli": {"type": "http", "url": URL, "headers": TOKEN},
    "goose": {
        **{"enabled": True, "type": "streamable_http", "name": "shelf", "description": "Tools served by mcp-bridge"},
        **{"uri": URL, "headers": TOKEN, "env_keys": ["SHELF_TOKEN"], "timeout": 300},
    },
    "opencode": {
        "type": "remote",
        "url": URL,
        "headers": {"Authorization": "Bearer {env:SHELF_TOKEN}"},
        "enabled": True,
    },
    "copilot-cli": {"type": "http", "url": URL, "headers": TOKEN, "tools": ["*"]},
    "cline": {"type": "streamableHttp", "url": URL, "headers": EDITOR_TOKEN},
    "kiro": {"url": URL, "headers": TOKEN},
    "qwen-code": {"httpUrl": URL, "headers": TOKEN, "alwaysLoadTools": True},
    "amp": {"url": URL, "headers": TOKEN},
    "warp": {"url": URL, "headers": TOKEN},
    "roo-code": {"type": "streamable-http", "url": URL, "headers": EDITOR_TOKEN},
    "kilo-code": {
        "type": "remote",
        "url": URL,
        "headers": {"Authorization": "Bearer {env:SHELF_TOKEN}"},
        "enabled": True,
    },
    "continue": {
        **{"name": "shelf", "type": "streamable-http", "url": URL},
        "requestOptions": {"headers": {"Authorization": "Bearer ${{ secrets.SHELF_TOKEN }}"}},
    },
}


def read_entries(user: ClientHome, client: str) -> dict[str, Any]:
    """Return the servers in a client's file."""
    place, path = CLIENTS[client].places[0], user.path(client)
    return dict(parse_servers(place, path.read_text(), path, detect_machine()))


@pytest.mark.parametrize("client", REMOTE)
def test_a_url_is_installed_with_a_reference_to_its_token_and_removed_again(client: str, user: ClientHome) -> None:
    user.environ["SHELF_TOKEN"] = "no-output-may-contain-this-token"
    result = user.run("install", client, URL, "--name", "shelf", "--token-env", "SHELF_TOKEN")
    assert "SHELF_TOKEN" in result.stderr
    assert read_entries(user, client) == {"shelf": REMOTE[client]}
    assert "no-output-may-contain" not in user.path(client).read_text() + result.stderr
    assert (
        "already installed" in user.run("install", client, URL, "--name", "shelf", "--token-env", "SHELF_TOKEN").stderr
    )
    user.run("uninstall", client)
    assert not user.path(client).exists()


@pytest.mark.parametrize("client", ["zed", "lm-studio", "cursor"])
def test_a_url_without_a_token_is_written_without_headers(client: str, user: ClientHome) -> None:
    user.run("install", client, URL)
    assert read_entries(user, client) == {"127-0-0-1-8808": {"url": URL}}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["claude-desktop", URL], "does not support URLs"),
        *(
            ([client, URL, "--token-env", "T"], "does not support references to variables")
            for client in ("zed", "visual-studio", "antigravity", "junie")
        ),
        (["cursor", URL, "--env", "A"], "--env: cannot be used with a URL"),
        (["cursor", "http://me:secret@host/mcp"], "has a user in it"),
        (["cursor", "http://[::1"], "the URL is not valid"),
        (["cursor", URL, "--token-env", "A=1"], "Use the NAME of the variable with the token."),
        (["cursor", "shelf.yaml", "--token-env", "T"], "only a URL has a token"),
        (["cursor", "shelf.yaml", "--env", "A B=1"], "'A B' is not the name of a variable"),
        (["claude-code", URL, "--use-client-command"], "cannot be used for URLs"),
    ],
)
def test_options_that_do_not_fit_a_url_or_a_client_are_rejected(words: list[str], why: str, user: ClientHome) -> None:
    assert why in user.run("install", *words, check=2).stderr


def test_an_entry_with_another_url_is_not_replaced(user: ClientHome) -> None:
    user.run("install", "cursor", URL, "--name", "shelf")
    assert "--force" in user.run("install", "cursor", "https://example.com/mcp", "--name", "shelf", check=2).stderr
    assert "--force" in user.run("install", "cursor", user.settings, check=2).stderr
    assert read_entries(user, "cursor") == {"shelf": {"url": URL}}


VALUES = {"opencode": "environment", "kilo-code": "environment", "goose": "envs"}


@pytest.mark.parametrize("client", [case for case in FILES if case in CLIENTS])
def test_a_variable_is_a_reference_and_a_value_is_a_value(client: str, user: ClientHome) -> None:
    words = ("install", client, user.settings, "--env", "LEVEL=high=er", "--env", "SHELF_KEY")
    result = user.run(*words)
    value = read_entries(user, client)["shelf"]
    assert value[VALUES.get(client, "env")]["LEVEL"] == "high=er"
    assert "SHELF_KEY" in result.stderr
    assert "LEVEL are in the file as plain text" in result.stderr
    if can_reference_variables(CLIENTS[client]):
        assert "SHELF_KEY" in json.dumps(value)
    records = "".join(path.read_text() for path in (user.home / ".local").rglob("*.json"))
    assert "high=er" not in records + user.run(*words, "--name", "two", "--dry-run").stdout
    assert "already installed" in user.run(*words).stderr
    user.run("uninstall", client)
    assert not user.path(client).exists()


def test_the_variables_reach_the_server_when_it_is_checked(user: ClientHome) -> None:
    (user.project / "tools.py").write_text(
        "import os\nfrom mcp_bridge import tool\n\nassert os.environ['LEVEL'] == 'high'\n\n"
        "@tool\ndef shout(text: str) -> str:\n    return text\n"
    )
    assert "LEVEL" in user.run("install", "codex", user.settings, "--check", check=1).stderr
    user.run("install", "codex", user.settings, "--check", "--env", "LEVEL=high")


def test_uninstall_lists_what_each_of_several_servers_serves(user: ClientHome) -> None:
    user.run("install", "cursor", URL, "--name", "remote")
    user.run("install", "cursor", user.settings)
    result = user.run("uninstall", "cursor", check=2)
    assert f"remote is at {URL}" in result.stderr
    assert f"shelf serves {user.settings}" in result.stderr

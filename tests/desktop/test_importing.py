"""`import` makes a settings file from the servers of the clients on a machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._desktop.embedded_secrets import is_secret
from mcp_bridge._settings import load
from tests.kits.clients.clients_running import ClientHome

FILES_SERVER: dict[str, Any] = {"command": "npx", "args": ["-y", "server-files", "/data"]}


def place_servers(user: ClientHome, case: str, servers: dict[str, Any], key: str = "mcpServers") -> Path:
    return user.write_file(case, json.dumps({key: servers}).encode())


def read_sources(user: ClientHome, **environ: str) -> dict[str, dict[str, Any]]:
    settings = load(user.project / "mcp-bridge.yaml", environ)
    return {source.name or "": dict(source.options) for source in settings.sources}


def test_servers_of_all_clients_are_imported_once(user: ClientHome) -> None:
    place_servers(user, "claude-desktop", {"files": FILES_SERVER})
    place_servers(user, "cursor", {"files": FILES_SERVER, "web": {"url": "https://a.example/mcp"}})
    place_servers(user, "vscode", {"files": {"type": "stdio", **FILES_SERVER}}, "servers")
    place_servers(user, "windsurf", {"web": {"serverUrl": "https://a.example/mcp"}})
    user.write_file("codex", b'[mcp_servers.toml]\ncommand = "a"\nenv_vars = ["A_TOKEN"]\n')
    user.write_file("goose", b"extensions:\n  g: {type: stdio, cmd: g, args: [x]}\n  developer: {type: builtin}\n")
    opencode = {"o": {"type": "local", "command": ["o", "x"], "environment": {"T": "{env:O_TOKEN}"}}}
    place_servers(user, "opencode", opencode, "mcp")
    user.write_file("continue", b"mcpServers:\n- {name: c, command: c, env: {T: '${{ secrets.C_TOKEN }}'}}\n")
    result = user.run("import")
    assert read_sources(user, A_TOKEN="a", O_TOKEN="o", C_TOKEN="c") == {
        "files": FILES_SERVER,
        "web": {"url": "https://a.example/mcp"},
        "toml": {"command": "a", "env": {"A_TOKEN": "a"}},
        "g": {"command": "g", "args": ["x"]},
        "o": {"command": "o", "args": ["x"], "env": {"T": "o"}},
        "c": {"command": "c", "env": {"T": "c"}},
    }
    assert "files  from Claude Desktop (user), VS Code (user), Cursor (user)" in result.stderr
    assert "Skipped 'developer' from Goose (user): it is switched off" in result.stderr


def test_a_file_is_read_once_in_the_home_folder(user: ClientHome) -> None:
    file = place_servers(user, "cursor", {"files": FILES_SERVER})
    at_home = replace(user, project=file.parent.parent)
    result = at_home.run("import")
    assert list(read_sources(at_home)) == ["files"]
    assert "files  from Cursor (user)" in result.stderr


def test_a_server_is_imported_with_its_sandbox_or_the_note_that_it_has_none(user: ClientHome) -> None:
    sandbox = {"type": "bubblewrap", "network": ["api.example.com"], "read": ["data"]}
    servers = {
        "switch": {"command": "a", "sandbox": True},
        "mapping": {"command": "b", "sandbox": sandbox},
        "other": {"command": "c", "sandbox": {"network": {"allowedDomains": ["api.example.com"]}}},
        "remote": {"url": "https://a.example/mcp", "sandbox": True},
    }
    place_servers(user, "cursor", servers)
    result = user.run("import")
    sources = read_sources(user)
    assert {name: options.get("sandbox") for name, options in sources.items()} == {
        "switch": True, "mapping": sandbox, "other": None
    }  # fmt: skip
    assert "Note about 'other' in " in result.stderr
    assert "'sandbox' is not read in this form" in result.stderr
    assert "Skipped 'remote' from Cursor (user): it has a sandbox, but runs elsewhere, at a URL" in result.stderr


def test_unread_keys_are_reported_once_and_oauth_is_imported(user: ClientHome) -> None:
    files = {**FILES_SERVER, "envFile": ".env"}
    place_servers(user, "claude-desktop", {"files": files})
    cursor = {"files": files, "web": {"url": "https://a.example/mcp", "auth": {"CLIENT_ID": "x"}}}
    path = place_servers(user, "cursor", cursor)
    result = user.run("import")
    assert read_sources(user)["web"] == {"url": "https://a.example/mcp", "auth": "oauth"}
    assert result.stderr.count("'envFile' is not read") == 1
    assert f"Note about 'web' in {path}: 'oauth' is read without 'CLIENT_ID'." in result.stderr
    (user.project / "mcp-bridge.yaml").unlink()
    assert [row["name"] for row in user.json("import")["notes"]] == ["files", "web"]


def test_secrets_are_not_copied(user: ClientHome) -> None:
    servers = {
        "a": {"command": "a", "env": {"API_KEY": "not-to-be-shown-1", "MODE": "fast"}},
        "b": {"command": "b", "env": {"API_KEY": "not-to-be-shown-2"}, "args": ["--token", "not-to-be-shown-3"]},
        "c": {"url": "https://c.example/mcp?api_key=not-to-be-shown-4", "headers": {"X-Api-Key": "not-to-be-shown-5"}},
        "d": {"url": "https://d.example/mcp", "headers": {"Authorization": "Bearer not-to-be-shown-6"}},
        "e": {
            "command": "e",
            "args": ["postgresql://ann:not-to-be-shown-7@db/x", "-H", "Authorization: Bearer not-to-be-shown-8"],
        },
    }
    path = place_servers(user, "cursor", servers)
    result = user.run("import")
    text = (user.project / "mcp-bridge.yaml").read_text()
    assert "not-to-be-shown" not in text + result.stderr + result.stdout
    assert f"its value is in {path}, b.env.API_KEY" in result.stderr
    variables = {
        **{"API_KEY": "1", "B_API_KEY": "2", "B_TOKEN": "3", "C_API_KEY": "4", "C_X_API_KEY": "5", "D_TOKEN": "6"},
        **{"E_SECRET": "7", "E_TOKEN": "8"},
    }
    assert read_sources(user, **variables) == {
        "a": {"command": "a", "env": {"API_KEY": "1", "MODE": "fast"}},
        "b": {"command": "b", "args": ["--token", "3"], "env": {"API_KEY": "2"}},
        "c": {"url": "https://c.example/mcp?api_key=4", "headers": {"X-Api-Key": "5"}},
        "d": {"url": "https://d.example/mcp", "headers": {"Authorization": "Bearer 6"}},
        "e": {"command": "e", "args": ["7", "-H", "Authorization: Bearer 8"]},
    }


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("", "sk-abcdefgh12345678", True),
        ("", "d41d8cd98f00b204e9800998ecf8427e", True),
        ("", "aB3dE5gH7jK9mN1pQ3sT5", True),
        ("db_password", "hunter2", True),
        ("HEADERS", '{"Authorization": "Bearer key_12345678"}', True),
        ("TEXT", "bearer authentication", False),
        ("LOG_LEVEL", "debug", False),
        ("", "@modelcontextprotocol/server-filesystem", False),
        ("", "/home/ann/Projects/2026/x", False),
        ("API_KEY", "${API_KEY}", False),
        ("TOKEN_LIMIT", "4096", False),
    ],
)
def test_secrets_are_recognized_by_name_or_form(name: str, value: str, expected: bool) -> None:
    assert is_secret(name, value) is expected


def test_references_and_similar_texts_keep_their_meaning(user: ClientHome) -> None:
    place_servers(user, "claude-desktop", {"a": {"command": "a", "env": {"X": "${LITERAL}"}}})
    place_servers(user, "claude-code", {"b": {"command": "b", "env": {"X": "${NAME:-fallback}"}}})
    place_servers(user, "vscode", {"c": {"command": "c", "env": {"X": "${input:my-key}"}}}, "servers")
    place_servers(user, "gemini-cli", {"d": {"command": "d", "env": {"X": "$D_TOKEN"}}})
    user.run("import")
    sources = read_sources(user, MY_KEY="typed", D_TOKEN="d")
    assert {name: source["env"]["X"] for name, source in sources.items()} == {
        **{"a": "${LITERAL}", "b": "fallback", "c": "typed", "d": "d"},
    }


def test_a_secret_gets_no_variable_to_which_another_server_refers(user: ClientHome) -> None:
    place_servers(user, "vscode", {"a": {"url": "https://a.example", "headers": {"X": "${input:api-key}"}}}, "servers")
    place_servers(user, "cursor", {"b": {"command": "b", "env": {"API_KEY": "of-b"}}})
    assert "  B_API_KEY  its value is in" in user.run("import").stderr
    sources = read_sources(user, API_KEY="of-a", B_API_KEY="of-b")
    assert (sources["a"]["headers"], sources["b"]["env"]) == ({"X": "of-a"}, {"API_KEY": "of-b"})


def test_numbers_in_arguments_become_text(user: ClientHome) -> None:
    place_servers(user, "cursor", {"files": {"command": "files", "args": ["--port", 8080, True]}})
    user.run("import")
    assert read_sources(user)["files"]["args"] == ["--port", "8080", "true"]


@pytest.mark.parametrize(
    "url", ["https://[${HOST}]/mcp?api_key=", "https://[broken/mcp?api_key=", "unix:///a?api_key="]
)
def test_an_invalid_url_is_imported_without_its_secrets(user: ClientHome, url: str) -> None:
    place_servers(user, "cursor", {"web": {"url": f"{url}12345"}, "files": FILES_SERVER})
    user.run("import")
    assert read_sources(user, HOST="${HOST}", WEB_API_KEY="") == {"files": FILES_SERVER, "web": {"url": url}}


def test_different_servers_with_equal_names_are_both_imported(user: ClientHome) -> None:
    place_servers(user, "claude-desktop", {"files": FILES_SERVER})
    place_servers(user, "cursor", {"files": {"command": "other"}})
    user.run("import")
    assert read_sources(user) == {"files": FILES_SERVER, "files-cursor": {"command": "other"}}


def test_bridges_and_disabled_entries_are_not_imported(user: ClientHome) -> None:
    entries = {
        "me": {"command": "/x/mcp-bridge", "args": ["serve", "a.yaml"]},
        "off": {"command": "a", "disabled": True},
    }
    place_servers(user, "cline", {**entries, "files": FILES_SERVER})
    result = user.run("import")
    assert "Skipped 'me' from Cline (user): it starts mcp-bridge itself" in result.stderr
    assert "Skipped 'off' from Cline (user): it is switched off" in result.stderr
    assert read_sources(user) == {"files": FILES_SERVER}


def test_servers_of_a_project_start_in_its_folder(user: ClientHome) -> None:
    place_servers(user, "claude-code-project", {"own": {"command": "python3", "args": ["server.py"]}})
    user.run("import")
    assert read_sources(user)["own"]["cwd"] == str(user.project)


def test_one_client_or_file_can_be_chosen(user: ClientHome, tmp_path: Path) -> None:
    place_servers(user, "cursor", {"files": FILES_SERVER})
    place_servers(user, "windsurf", {"other": {"command": "other"}})
    file = tmp_path / "team.json"
    file.write_text(json.dumps({"mcpServers": {"team": {"command": "t", "env": {"T": "${env:T}"}}}}))
    user.run("import", "--from", "cursor", "--from", file)
    assert read_sources(user, T="1") == {"files": FILES_SERVER, "team": {"command": "t", "env": {"T": "1"}}}


def test_an_existing_file_is_replaced_only_by_force(user: ClientHome) -> None:
    place_servers(user, "cursor", {"files": FILES_SERVER})
    (user.project / "mcp-bridge.yaml").write_text("name: mine\n")
    assert "this file exists. Replace it with --force" in user.run("import", check=2).stderr
    assert (user.project / "mcp-bridge.yaml").read_text() == "name: mine\n"
    user.run("import", "--force")
    assert read_sources(user) == {"files": FILES_SERVER}


def test_an_unreadable_file_does_not_affect_the_others(user: ClientHome) -> None:
    path = user.write_file("cursor", b'{"mcpServers": {"a": ')
    place_servers(user, "windsurf", {"files": FILES_SERVER})
    assert f"PROBLEM: {path}:1: not valid JSON" in user.run("import").stderr
    assert read_sources(user) == {"files": FILES_SERVER}


def test_a_machine_without_servers_is_reported(user: ClientHome) -> None:
    assert "no servers were found in the files of your MCP clients" in user.run("import", check=2).stderr
    assert not (user.project / "mcp-bridge.yaml").exists()


def test_the_result_is_available_as_json_and_on_stdout(user: ClientHome) -> None:
    place_servers(user, "cursor", {"a": {"command": "a", "env": {"API_KEY": "not-to-be-shown"}}})
    assert user.run("import", "--out", "-").stdout.startswith("# Made by `mcp-bridge import`")
    result = user.json("import")
    assert [server["name"] for server in result["servers"]] == ["a"]
    assert [variable["name"] for variable in result["variables"]] == ["API_KEY"]

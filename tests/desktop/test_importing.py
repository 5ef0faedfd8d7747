"""`import` makes a settings file from the servers of the clients on a machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._desktop.embedded_secrets import is_secret
from mcp_bridge._settings import load
from tests.kits.clients.clients_running import Person, person

FILES_SERVER: dict[str, Any] = {"command": "npx", "args": ["-y", "server-files", "/data"]}


@pytest.fixture
def who(tmp_path: Path) -> Person:
    return person(tmp_path)


def place_servers(who: Person, case: str, servers: dict[str, Any], key: str = "mcpServers") -> Path:
    return who.place(case, json.dumps({key: servers}).encode())


def read_sources(who: Person, **environ: str) -> dict[str, dict[str, Any]]:
    settings = load(who.project / "mcp-bridge.yaml", environ)
    return {source.name or "": dict(source.options) for source in settings.sources}


def test_servers_of_all_clients_are_imported_once(who: Person) -> None:
    place_servers(who, "claude-desktop", {"files": FILES_SERVER})
    place_servers(who, "cursor", {"files": FILES_SERVER, "web": {"url": "https://a.example/mcp"}})
    place_servers(who, "vscode", {"files": {"type": "stdio", **FILES_SERVER}}, "servers")
    place_servers(who, "windsurf", {"web": {"serverUrl": "https://a.example/mcp"}})
    who.place("codex", b'[mcp_servers.toml]\ncommand = "a"\nenv_vars = ["A_TOKEN"]\n')
    who.place("goose", b"extensions:\n  g: {type: stdio, cmd: g, args: [x]}\n  developer: {type: builtin}\n")
    opencode = {"o": {"type": "local", "command": ["o", "x"], "environment": {"T": "{env:O_TOKEN}"}}}
    place_servers(who, "opencode", opencode, "mcp")
    who.place("continue", b"mcpServers:\n- {name: c, command: c, env: {T: '${{ secrets.C_TOKEN }}'}}\n")
    result = who.run("import")
    assert read_sources(who, A_TOKEN="a", O_TOKEN="o", C_TOKEN="c") == {
        "files": FILES_SERVER,
        "web": {"url": "https://a.example/mcp"},
        "toml": {"command": "a", "env": {"A_TOKEN": "a"}},
        "g": {"command": "g", "args": ["x"]},
        "o": {"command": "o", "args": ["x"], "env": {"T": "o"}},
        "c": {"command": "c", "env": {"T": "c"}},
    }
    assert "files  from Claude Desktop (user), VS Code (user), Cursor (user)" in result.stderr
    assert "Skipped 'developer' from Goose (user): it is switched off" in result.stderr


def test_a_file_is_read_once_in_the_home_folder(who: Person) -> None:
    file = place_servers(who, "cursor", {"files": FILES_SERVER})
    at_home = replace(who, project=file.parent.parent)
    result = at_home.run("import")
    assert list(read_sources(at_home)) == ["files"]
    assert "files  from Cursor (user)" in result.stderr


def test_unread_keys_are_reported_once_and_oauth_is_imported(who: Person) -> None:
    files = {**FILES_SERVER, "envFile": ".env"}
    place_servers(who, "claude-desktop", {"files": files})
    cursor = {"files": files, "web": {"url": "https://a.example/mcp", "auth": {"CLIENT_ID": "x"}}}
    path = place_servers(who, "cursor", cursor)
    result = who.run("import")
    assert read_sources(who)["web"] == {"url": "https://a.example/mcp", "auth": "oauth"}
    assert result.stderr.count("'envFile' is not read") == 1
    assert f"Note about 'web' in {path}: 'oauth' is read without 'CLIENT_ID'." in result.stderr
    (who.project / "mcp-bridge.yaml").unlink()
    assert [row["name"] for row in who.json("import")["notes"]] == ["files", "web"]


def test_secrets_are_not_copied(who: Person) -> None:
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
    path = place_servers(who, "cursor", servers)
    result = who.run("import")
    text = (who.project / "mcp-bridge.yaml").read_text()
    assert "not-to-be-shown" not in text + result.stderr + result.stdout
    assert f"its value is in {path}, b.env.API_KEY" in result.stderr
    variables = {
        **{"API_KEY": "1", "B_API_KEY": "2", "B_TOKEN": "3", "C_API_KEY": "4", "C_X_API_KEY": "5", "D_TOKEN": "6"},
        **{"E_SECRET": "7", "E_TOKEN": "8"},
    }
    assert read_sources(who, **variables) == {
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


def test_references_and_similar_texts_keep_their_meaning(who: Person) -> None:
    place_servers(who, "claude-desktop", {"a": {"command": "a", "env": {"X": "${LITERAL}"}}})
    place_servers(who, "claude-code", {"b": {"command": "b", "env": {"X": "${NAME:-fallback}"}}})
    place_servers(who, "vscode", {"c": {"command": "c", "env": {"X": "${input:my-key}"}}}, "servers")
    place_servers(who, "gemini-cli", {"d": {"command": "d", "env": {"X": "$D_TOKEN"}}})
    who.run("import")
    sources = read_sources(who, MY_KEY="typed", D_TOKEN="d")
    assert {name: source["env"]["X"] for name, source in sources.items()} == {
        **{"a": "${LITERAL}", "b": "fallback", "c": "typed", "d": "d"},
    }


def test_a_secret_gets_no_variable_to_which_another_server_refers(who: Person) -> None:
    place_servers(who, "vscode", {"a": {"url": "https://a.example", "headers": {"X": "${input:api-key}"}}}, "servers")
    place_servers(who, "cursor", {"b": {"command": "b", "env": {"API_KEY": "of-b"}}})
    assert "  B_API_KEY  its value is in" in who.run("import").stderr
    sources = read_sources(who, API_KEY="of-a", B_API_KEY="of-b")
    assert (sources["a"]["headers"], sources["b"]["env"]) == ({"X": "of-a"}, {"API_KEY": "of-b"})


def test_numbers_in_arguments_become_text(who: Person) -> None:
    place_servers(who, "cursor", {"files": {"command": "files", "args": ["--port", 8080, True]}})
    who.run("import")
    assert read_sources(who)["files"]["args"] == ["--port", "8080", "true"]


@pytest.mark.parametrize(
    "url", ["https://[${HOST}]/mcp?api_key=", "https://[broken/mcp?api_key=", "unix:///a?api_key="]
)
def test_an_invalid_url_is_imported_without_its_secrets(who: Person, url: str) -> None:
    place_servers(who, "cursor", {"web": {"url": f"{url}12345"}, "files": FILES_SERVER})
    who.run("import")
    assert read_sources(who, HOST="${HOST}", WEB_API_KEY="") == {"files": FILES_SERVER, "web": {"url": url}}


def test_different_servers_with_equal_names_are_both_imported(who: Person) -> None:
    place_servers(who, "claude-desktop", {"files": FILES_SERVER})
    place_servers(who, "cursor", {"files": {"command": "other"}})
    who.run("import")
    assert read_sources(who) == {"files": FILES_SERVER, "files-cursor": {"command": "other"}}


def test_bridges_and_disabled_entries_are_not_imported(who: Person) -> None:
    entries = {
        "me": {"command": "/x/mcp-bridge", "args": ["serve", "a.yaml"]},
        "off": {"command": "a", "disabled": True},
    }
    place_servers(who, "cline", {**entries, "files": FILES_SERVER})
    result = who.run("import")
    assert "Skipped 'me' from Cline (user): it starts mcp-bridge itself" in result.stderr
    assert "Skipped 'off' from Cline (user): it is switched off" in result.stderr
    assert read_sources(who) == {"files": FILES_SERVER}


def test_servers_of_a_project_start_in_its_folder(who: Person) -> None:
    place_servers(who, "claude-code-project", {"own": {"command": "python3", "args": ["server.py"]}})
    who.run("import")
    assert read_sources(who)["own"]["cwd"] == str(who.project)


def test_one_client_or_file_can_be_chosen(who: Person, tmp_path: Path) -> None:
    place_servers(who, "cursor", {"files": FILES_SERVER})
    place_servers(who, "windsurf", {"other": {"command": "other"}})
    file = tmp_path / "team.json"
    file.write_text(json.dumps({"mcpServers": {"team": {"command": "t", "env": {"T": "${env:T}"}}}}))
    who.run("import", "--from", "cursor", "--from", file)
    assert read_sources(who, T="1") == {"files": FILES_SERVER, "team": {"command": "t", "env": {"T": "1"}}}


def test_an_existing_file_is_replaced_only_by_force(who: Person) -> None:
    place_servers(who, "cursor", {"files": FILES_SERVER})
    (who.project / "mcp-bridge.yaml").write_text("name: mine\n")
    assert "this file exists. Replace it with --force" in who.run("import", check=2).stderr
    assert (who.project / "mcp-bridge.yaml").read_text() == "name: mine\n"
    who.run("import", "--force")
    assert read_sources(who) == {"files": FILES_SERVER}


def test_an_unreadable_file_does_not_affect_the_others(who: Person) -> None:
    path = who.place("cursor", b'{"mcpServers": {"a": ')
    place_servers(who, "windsurf", {"files": FILES_SERVER})
    assert f"PROBLEM: {path}:1: not valid JSON" in who.run("import").stderr
    assert read_sources(who) == {"files": FILES_SERVER}


def test_a_machine_without_servers_is_reported(who: Person) -> None:
    assert "no servers were found in the files of your MCP clients" in who.run("import", check=2).stderr
    assert not (who.project / "mcp-bridge.yaml").exists()


def test_the_result_is_available_as_json_and_on_stdout(who: Person) -> None:
    place_servers(who, "cursor", {"a": {"command": "a", "env": {"API_KEY": "not-to-be-shown"}}})
    assert who.run("import", "--out", "-").stdout.startswith("# Made by `mcp-bridge import`")
    result = who.json("import")
    assert [server["name"] for server in result["servers"]] == ["a"]
    assert [variable["name"] for variable in result["variables"]] == ["API_KEY"]

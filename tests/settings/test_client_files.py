"""Files of MCP clients are settings files: each server in them is a source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings import Settings, SourceSettings, load

ENVIRON = {"GITHUB_TOKEN": "ghp-from-the-environment", "HOME": "/home/ann"}
STDIO = {"command": "npx", "args": ["-y", "server-github"], "env": {"TOKEN": "ghp-from-the-environment"}}
REMOTE = {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ghp-from-the-environment"}}

CLIENT_FILES: dict[str, tuple[str, str]] = {
    "claude-desktop": (
        "claude_desktop_config.json",
        '{"mcpServers": {"github": {"command": "npx", "args": ["-y", "server-github"], "env": '
        '{"TOKEN": "${GITHUB_TOKEN}"}}}, "globalShortcut": "Ctrl+Space"}',
    ),
    "claude-code": (
        ".claude.json",
        '{"numStartups": 3, "projects": {"/p": {"mcpServers": {"other": {"command": "x"}}}}, "tipsHistory": {"a": 1},'
        '"mcpServers": {"github": {"type": "stdio", "command": "npx", "args": ["-y", "server-github"], '
        '"env": {"TOKEN": "${GITHUB_TOKEN}"}}, "web": {"type": "http", "url": "https://example.com/mcp", '
        '"headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}}}}',
    ),
    "vscode": (
        ".vscode/mcp.json",
        """{
          // what the user is asked
          "inputs": [{"type": "promptString", "id": "token", "password": true}],
          "servers": {
            "github": {"type": "stdio", "command": "npx", "args": ["-y", "server-github"],
                       "env": {"TOKEN": "${env:GITHUB_TOKEN}", "UNUSED": null}},
            "web": {"type": "http", "url": "https://example.com/mcp",
                    "headers": {"Authorization": "Bearer ${env:GITHUB_TOKEN}"}},
          },
        }""",
    ),
    "windsurf": (
        "mcp_config.json",
        '{"mcpServers": {"github": {"command": "npx", "args": ["-y", "server-github"], "env": '
        '{"TOKEN": "${env:GITHUB_TOKEN}"}, "disabledTools": ["delete_*"]}, "web": {"serverUrl": '
        '"https://example.com/mcp", "headers": {"Authorization": "Bearer ${env:GITHUB_TOKEN}"}}}}',
    ),
    "zed": (
        ".zed/settings.json",
        """{
          "theme": "One Dark", // not ours
          "terminal": {"env": {"X": "${ZED_ONLY}"}},
          "context_servers": {
            "github": {"source": "custom", "command": {"path": "npx", "args": ["-y", "server-github"],
                       "env": {"TOKEN": "${GITHUB_TOKEN}"}}, "settings": {}},
            "web": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}}
          }
        }""",
    ),
    "codex": (
        "config.toml",
        'model = "gpt-5"\napproval_policy = "on-request"\n\n[mcp_servers.github]\ncommand = "npx"\n'
        'args = ["-y", "server-github"]\nenv = { TOKEN = "${GITHUB_TOKEN}" }\nstartup_timeout_sec = 30\n\n'
        '[mcp_servers.web]\nurl = "https://example.com/mcp"\nbearer_token_env_var = "GITHUB_TOKEN"\n',
    ),
    "gemini-cli": (
        ".gemini/settings.json",
        """{
          "mcp": {"allowed": ["github"]},
          "tools": {"core": ["ls"]},
          "mcpServers": {
            "github": {"command": "npx", "args": ["-y", "server-github"], "env": {"TOKEN": "$GITHUB_TOKEN"},
                       "trust": true, "timeout": 600000, "excludeTools": ["delete_*"]},
            "web": {"httpUrl": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}}
          }
        }""",
    ),
    "goose": (
        "config.yaml",
        "GOOSE_PROVIDER: openai\nextensions:\n  developer:\n    type: builtin\n    enabled: true\n    name: developer\n"
        "  github:\n    type: stdio\n    enabled: true\n    name: github\n    cmd: npx\n    args: [-y, server-github]\n"
        "    envs: {TOKEN: '${GITHUB_TOKEN}'}\n    timeout: 300\n  web:\n    type: streamable_http\n    enabled: true\n"
        "    uri: https://example.com/mcp\n    headers: {Authorization: 'Bearer ${GITHUB_TOKEN}'}\n",
    ),
    "opencode": (
        "opencode.jsonc",
        """{
          "$schema": "https://opencode.ai/config.json",
          "instructions": ["CONTRIBUTING.md"],
          "mcp": {
            "github": {"type": "local", "command": ["npx", "-y", "server-github"], "enabled": true,
                       "environment": {"TOKEN": "{env:GITHUB_TOKEN}"}},
            "web": {"type": "remote", "url": "https://example.com/mcp",
                    "headers": {"Authorization": "Bearer {env:GITHUB_TOKEN}"}}
          }
        }""",
    ),
    "cline": (
        "cline_mcp_settings.json",
        '{"mcpServers": {"github": {"autoApprove": ["search"], "disabled": false, "timeout": 60, "type": "stdio", '
        '"command": "npx", "args": ["-y", "server-github"], "env": {"TOKEN": "${env:GITHUB_TOKEN}"}}, "web": '
        '{"type": "streamableHttp", "url": "https://example.com/mcp", "headers": '
        '{"Authorization": "Bearer ${env:GITHUB_TOKEN}"}}}}',
    ),
    "continue": (
        "config.yaml",
        "name: Local Config\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: gpt\n    provider: openai\nmcpServers:\n"
        "  - name: github\n    command: npx\n    args: [-y, server-github]\n    env:\n"
        "      TOKEN: ${{ secrets.GITHUB_TOKEN }}\n  - name: web\n    type: streamable-http\n"
        "    url: https://example.com/mcp\n    requestOptions:\n      headers:\n"
        "        Authorization: Bearer ${{ secrets.GITHUB_TOKEN }}\n",
    ),
    "amp": (
        ".amp/settings.json",
        """{
          "amp.showCosts": true, // mine
          "amp.mcpServers": {
            "github": {"command": "npx", "args": ["-y", "server-github"], "env": {"TOKEN": "${GITHUB_TOKEN}"}},
            "web": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}},
          },
        }""",
    ),
    "qwen-code": (
        ".qwen/settings.json",
        """{
          "model": {"name": "qwen3-coder-plus"},
          "mcpServers": {
            "github": {"command": "npx", "args": ["-y", "server-github"], "env": {"TOKEN": "$GITHUB_TOKEN"},
                       "alwaysLoadTools": true, "discoveryTimeoutMs": 60000},
            "web": {"httpUrl": "https://example.com/mcp", "headers": {"Authorization": "Bearer $GITHUB_TOKEN"}}
          }
        }""",
    ),
    "librechat": (
        "librechat.yaml",
        "version: 1.3.1\nendpoints: {agents: {disableBuilder: false}}\nmcpServers:\n  github:\n    type: stdio\n"
        "    command: npx\n    args: [-y, server-github]\n    env: {TOKEN: '${GITHUB_TOKEN}'}\n  web:\n"
        "    type: streamable-http\n    url: https://example.com/mcp\n"
        "    headers: {Authorization: 'Bearer ${GITHUB_TOKEN}'}\n",
    ),
    "copilot-cli": (
        "mcp-config.json",
        '{"mcpServers": {"github": {"type": "local", "command": "npx", "args": ["-y", "server-github"], "env": '
        '{"TOKEN": "${GITHUB_TOKEN}"}, "tools": ["*"]}, "web": {"type": "http", "url": "https://example.com/mcp", '
        '"headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}, "tools": ["*"]}}}',
    ),
}


def load_text(folder: Path, name: str, text: str) -> Settings:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return load(file, ENVIRON)


def load_entry(folder: Path, entry: dict[str, Any], key: str = "mcpServers") -> dict[str, Any]:
    """Load a file with one entry, and return the options of its source."""
    settings = load_text(folder, "mcp.json", json.dumps({key: {"one": entry}}))
    (source,) = settings.sources
    return source.options


def find_problem(source: SourceSettings) -> str:
    return str((source.origin and source.origin.problem) or "")


@pytest.mark.parametrize("client", CLIENT_FILES)
def test_a_file_of_a_client_gives_the_same_sources_as_settings(client: str, tmp_path: Path) -> None:
    name, text = CLIENT_FILES[client]
    settings = load_text(tmp_path, name, text)
    sources = {source.name: source for source in settings.sources}
    assert set(sources) == ({"github"} if client == "claude-desktop" else {"github", "web"})
    assert {source.type for source in settings.sources} == {"mcp"}
    github = dict(sources["github"].options)
    assert github.pop("start_timeout", None) == (30 if client == "codex" else None)
    assert github == STDIO
    assert client == "claude-desktop" or sources["web"].options == REMOTE
    assert "ghp-from-the-environment" in settings.secrets


def test_tools_that_a_client_excludes_are_excluded(tmp_path: Path) -> None:
    for client in ("windsurf", "gemini-cli"):
        settings = load_text(tmp_path, *CLIENT_FILES[client])
        assert settings.sources[0].exclude == ("delete_*",)


def test_named_variables_and_headers_of_codex_become_references(tmp_path: Path) -> None:
    assert load_entry(tmp_path, {"command": "a", "env_vars": ["GITHUB_TOKEN"]}) == {
        "command": "a",
        "env": {"GITHUB_TOKEN": "ghp-from-the-environment"},
    }
    entry = {"url": "https://a.example", "http_headers": {"X": "1"}, "env_http_headers": {"Y": "GITHUB_TOKEN"}}
    assert load_entry(tmp_path, entry)["headers"] == {"X": "1", "Y": "ghp-from-the-environment"}


@pytest.mark.parametrize("folder", [".warp", ".roo", ".agents"])
def test_the_folder_of_a_server_is_in_the_project_of_its_file(folder: str, tmp_path: Path) -> None:
    entry = {"command": "a", "working_directory": "${workspaceFolder}/tools"}
    settings = load_text(tmp_path, f"{folder}/mcp.json", json.dumps({"mcpServers": {"one": entry}}))
    assert settings.sources[0].options["cwd"] == f"{tmp_path}/tools"


def test_a_server_over_the_older_transport_is_recognized(tmp_path: Path) -> None:
    assert load_entry(tmp_path, {"type": "sse", "url": "https://a.example/events"})["transport"] == "sse"
    assert load_entry(tmp_path, {"url": "https://a.example/sse"})["transport"] == "sse"
    assert "transport" not in load_entry(tmp_path, {"type": "http", "url": "https://a.example/sse"})


@pytest.mark.parametrize(
    ("word", "transport"),
    [("stdio", None), ("http", "http"), ("streamable-http", "http"), ("streamable_http", "http"), ("sse", "sse")],
)
def test_the_transport_names_of_fastmcp_and_langchain_are_accepted(
    tmp_path: Path, word: str, transport: str | None
) -> None:
    address = {"command": "a"} if word == "stdio" else {"url": "https://a.example/mcp"}
    assert load_entry(tmp_path, {"transport": word, **address}).get("transport") == transport


def test_a_text_in_auth_is_a_bearer_token_as_in_fastmcp(tmp_path: Path) -> None:
    options = load_entry(tmp_path, {"url": "https://a.example", "auth": "abc12345"})
    assert options["headers"] == {"Authorization": "Bearer abc12345"}
    assert "auth" not in options
    entry = {"url": "https://a.example", "auth": "abc12345", "headers": {"authorization": "Basic x"}}
    assert load_entry(tmp_path, entry)["headers"] == {"authorization": "Basic x"}
    assert load_entry(tmp_path, {"url": "https://a.example", "auth": "oauth"})["auth"] == "oauth"


def test_a_reference_of_gemini_cli_may_be_a_part_of_a_text(tmp_path: Path) -> None:
    headers = {"Authorization": "Bearer $GITHUB_TOKEN"}
    gemini = load_entry(tmp_path, {"httpUrl": "https://a.example", "headers": headers})
    assert gemini["headers"] == {"Authorization": "Bearer ghp-from-the-environment"}
    entry = {"url": "https://a.example", "headers": headers}
    assert load_entry(tmp_path, entry)["headers"] == headers
    settings = load_text(tmp_path, ".gemini/settings.json", json.dumps({"mcpServers": {"one": entry}}))
    assert settings.sources[0].options["headers"] == {"Authorization": "Bearer ghp-from-the-environment"}


def test_empty_values_of_clients_are_ignored(tmp_path: Path) -> None:
    assert load_entry(tmp_path, {"command": "a", "cwd": "", "env": None}) == {"command": "a"}
    zed = {"command": {"path": "a", "args": None, "env": None}}
    assert load_entry(tmp_path, zed, "context_servers") == {"command": "a"}
    assert load_text(tmp_path, "mcp.json", '{"mcpServers": null}').sources == ()


def load_notes(folder: Path, entry: dict[str, Any]) -> tuple[str, ...]:
    """Return the notes about the entry of a server in the settings."""
    (source,) = load_text(folder, "mcp.json", json.dumps({"mcpServers": {"one": entry}})).sources
    assert source.origin is not None
    return source.origin.notes


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("envFile", ".env", "'envFile' is not read. Write its variables into `env`"),
        ("headersHelper", "x.sh", "'headersHelper' is not read. Write the headers into `headers`"),
        ("authProviderType", "google_credentials", "'authProviderType' is not read. Write the header"),
        ("auth", ["x"], "'auth' is not read. Write `oauth` and run `mcp-bridge login`"),
        ("sandbox", {"network": {"allow": []}}, "'sandbox' is not read in this form. Write `true`"),
        ("auth", {"CLIENT_ID": "x"}, "'oauth' is not read. A server that the bridge starts"),
        ("oauth", {"clientId": "x"}, "'oauth' is not read. A server that the bridge starts"),
    ],
)
def test_a_key_that_is_not_supported_is_reported(tmp_path: Path, key: str, value: Any, problem: str) -> None:
    (note,) = load_notes(tmp_path, {"command": "a", key: value})
    assert note.startswith(problem)


@pytest.mark.parametrize(
    ("entry", "unread"),
    [
        ({"oauth": {}}, ""),
        ({"oauth": True}, ""),
        ({"oauth": {"enabled": True, "clientId": "x", "scopes": ["a"]}}, "'clientId', 'scopes'"),
        ({"auth": {"CLIENT_ID": "x"}}, "'CLIENT_ID'"),
    ],
)
def test_oauth_of_clients_becomes_oauth_of_the_settings(tmp_path: Path, entry: dict[str, Any], unread: str) -> None:
    entry["url"] = "https://a.example/mcp"
    assert load_entry(tmp_path, entry) == {"url": "https://a.example/mcp", "auth": "oauth"}
    notes = load_notes(tmp_path, entry)
    assert [note.partition(". ")[0] for note in notes] == ([f"'oauth' is read without {unread}"] if unread else [])


@pytest.mark.parametrize("oauth", [False, {"enabled": False, "clientId": "x"}])
def test_disabled_oauth_is_not_used(tmp_path: Path, oauth: Any) -> None:
    entry = {"url": "https://a.example/mcp", "oauth": oauth}
    assert "auth" not in load_entry(tmp_path, entry)
    assert load_notes(tmp_path, entry) == ()


def test_a_header_takes_precedence_over_oauth(tmp_path: Path) -> None:
    entry = {"url": "https://a.example/mcp", "oauth": {}, "headers": {"authorization": "Bearer x"}}
    assert "auth" not in load_entry(tmp_path, entry)


def test_folders_of_an_editor_are_resolved(tmp_path: Path) -> None:
    text = '{"servers": {"files": {"command": "a", "args": ["${workspaceFolder}/data", "${userHome}"]}}}'
    settings = load_text(tmp_path, ".vscode/mcp.json", text)
    assert settings.sources[0].options["args"] == [f"{tmp_path}/data", str(Path.home())]


def test_disabled_servers_are_ignored(tmp_path: Path) -> None:
    text = '{"mcpServers": {"a": {"command": "a", "disabled": true}, "b": {"command": "b", "enabled": false}, '
    text += '"c": {"command": "c", "isActive": false}}}'
    assert load_text(tmp_path, "mcp.json", text).sources == ()


def test_numbers_in_the_environment_of_a_server_are_text(tmp_path: Path) -> None:
    options = load_entry(tmp_path, {"command": "a", "env": {"PORT": 8080, "DEBUG": True}})
    assert options["env"] == {"PORT": "8080", "DEBUG": "true"}


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (
            {"command": "a", "env": {"T": "${env:NOT_SET}"}},
            "mcp.json:1: mcpServers.one.env.T: the environment variable NOT_SET is not set. "
            "Set it, or give a default: ${NOT_SET:-default}.",
        ),
        (
            {"command": "a", "env": {"T": "${input:token}"}},
            "mcp.json:1: mcpServers.one.env.T: '${input:...}' is a question that only an editor can ask its user. "
            "Use an environment variable instead: ${NAME}.",
        ),
        ({"settings": {}}, "mcp.json:1: mcpServers.one: it has neither a command nor a URL. "),
        ("a", "mcp.json:1: mcpServers.one: it has neither a command nor a URL. "),
    ],
)
def test_a_problem_of_one_server_does_not_affect_the_others(entry: Any, problem: str, tmp_path: Path) -> None:
    text = json.dumps({"mcpServers": {"one": entry, "good": {"command": "a"}}})
    bad, good = load_text(tmp_path, "mcp.json", text).sources
    assert find_problem(bad).removeprefix(f"{tmp_path}/").startswith(problem)
    assert not find_problem(good)


def test_an_unset_variable_in_a_server_of_the_settings_affects_only_this_server(tmp_path: Path) -> None:
    text = "sources:\n- {type: mcp, name: one, command: a, env: {T: '${NOT_SET}'}}\n- {type: mcp, name: two, url: b}\n"
    bad, good = load_text(tmp_path, "mcp-bridge.yaml", text).sources
    assert "NOT_SET is not set" in find_problem(bad)
    assert not find_problem(good)


def test_an_unset_variable_outside_of_servers_stops_the_load(tmp_path: Path) -> None:
    text = "name: ${NOT_SET}\nsources:\n- {type: mcp, name: one, command: a}\n"
    with pytest.raises(ConfigError, match="NOT_SET is not set"):
        load_text(tmp_path, "mcp-bridge.yaml", text)


def test_lists_of_other_clients_are_unknown_keys_in_a_settings_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown key 'extensions'"):
        load_text(tmp_path, "mcp-bridge.yaml", "sources: []\nextensions: {a: {cmd: a}}\n")


def test_the_sandbox_of_an_entry_is_that_of_a_source(tmp_path: Path) -> None:
    sandbox = {"sandbox": {"network": True, "read": ["a"], "write": ["b"]}}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"one": {"command": "server", **sandbox}}}))
    (source,) = load(file, {}).sources
    assert source.options == {"command": "server", **sandbox}


def test_a_sandbox_in_the_form_of_a_client_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(
        json.dumps(
            {"servers": {"one": {"command": "server", "sandbox": {"network": {"allow": []}}, "network": "host"}}}
        )
    )
    (source,) = load(file, {}).sources
    assert source.options == {"command": "server"}

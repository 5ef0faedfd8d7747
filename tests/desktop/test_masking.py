"""A dry run prints the harmless parts of an entry, and masks all others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kits.clients.clients_running import COMMAND, ClientHome, make_home

OLD = "/old/bin/mcp-bridge"
SECRETS = ("plain-secret", "424242", "sekr", "quoted", "block-one", "block-two", "comment-secret", "neighbours")
JSON = """{
  "KEY": {
    "files": {"command": "npx", "env": {"K": "neighbours"}}, // comment-secret
    "demo": {
      "command": "OLD", // comment-secret
      "args": ["serve", "/old/demo.py"],
      "env": {"API_KEY": "sk-plain-secret-1", "PIN": 424242, "E": "sekr\\u0065t", "Q": "a \\"quoted\\" one"},
      "headers": {"X": ["sk-plain-secret-2", {"Y": -424242.5}]}
    }
  }
}
"""
FILES = {
    "cursor": JSON.replace("KEY", "mcpServers", 1),
    "zed": JSON.replace("KEY", "context_servers", 1),
    "opencode": JSON.replace("KEY", "mcp", 1)
    .replace('"OLD"', '["OLD", "serve", "/old/demo.py"]')
    .replace('      "args": ["serve", "/old/demo.py"],\n', ""),
    "codex": """[mcp_servers.demo] # comment-secret
command = "OLD"
args = ["serve", "/old/demo.py"]
startup_timeout_sec = 424242
env_vars = ["sk-plain-secret-1"]
env = { API_KEY = 'sk-plain-secret-1', E = "sekr\\u0065t", X = '''
block-one
block-two''' }
[mcp_servers.demo.http_headers]
A = "a \\"quoted\\" one"
""",
    "goose": """extensions:
  files: {cmd: npx, envs: {K: neighbours}} # comment-secret
  demo:
    enabled: true
    type: stdio
    name: demo
    cmd: OLD # comment-secret
    args: [serve, /old/demo.py]
    envs:
      API_KEY: sk-plain-secret-1
      PIN: 424242
      E: "sekr\\u0065t"
      Q: 'a "quoted" one'
      LONG: |
        block-one
        block-two
    timeout: 300
""",
    "continue": """mcpServers:
  - name: demo
    command: OLD
    args: [serve, /old/demo.py]
    env: {API_KEY: sk-plain-secret-1, PIN: 424242, E: "sekr\\u0065t"}
""",
}


@pytest.fixture
def user(tmp_path: Path) -> ClientHome:
    machine = make_home(tmp_path)
    (machine.project / "demo.py").write_text((machine.project / "tools.py").read_text())
    return machine


def get_difference(user: ClientHome, *words: str | Path) -> str:
    """Return the difference in the output and in the JSON, and assert that neither contains secrets."""
    text = user.run(*words, "--dry-run")
    answer = user.run(*words, "--dry-run", "--json")
    for secret in SECRETS:
        assert secret not in text.stdout + text.stderr + answer.stdout
    data = json.loads(answer.stdout)
    assert text.stdout == (data["difference"] if "difference" in data else data["removed"][0]["difference"])
    return text.stdout


@pytest.mark.parametrize("case", FILES)
def test_an_update_shows_the_paths_and_no_value(case: str, user: ClientHome) -> None:
    path = user.write_file(case, FILES[case].replace("OLD", OLD).encode())
    text = get_difference(user, "install", case, user.project / "demo.py", "--force")
    for word in (f"--- {path}", OLD, "/old/demo.py", str(COMMAND), str(user.project / "demo.py")):
        assert word in text
    assert path.read_text() == FILES[case].replace("OLD", OLD)
    demo = str(user.project / "demo.py")
    user.write_file(case, FILES[case].replace("OLD", OLD).replace("/old/demo.py", demo).encode())
    # The second install updates the command in the same file.
    text = get_difference(user, "install", case, demo)
    assert OLD in text
    assert str(COMMAND) in text


@pytest.mark.parametrize("case", FILES)
def test_a_removal_shows_the_name_and_the_paths_and_no_value(case: str, user: ClientHome) -> None:
    user.write_file(case, FILES[case].replace("OLD", OLD).encode())
    text = get_difference(user, "uninstall", case)
    for word in ("demo", OLD, "/old/demo.py", "serve", "…"):
        assert word in text
    assert ("API_KEY" in text) or case == "zed"


@pytest.mark.parametrize("case", ["cursor", "zed", "opencode"])
def test_the_difference_of_a_file_in_one_line_shows_no_neighbours(case: str, user: ClientHome) -> None:
    lines = [line.split(" //")[0] for line in FILES[case].replace("OLD", OLD).splitlines()]
    user.write_file(case, json.dumps(json.loads("\n".join(lines)), separators=(",", ":")).encode())
    for words in (("install", case, user.project / "demo.py", "--force"), ("uninstall", case)):
        text = get_difference(user, *words)
        assert OLD in text
        assert "npx" not in text


def test_only_the_program_of_another_server_is_shown(user: ClientHome) -> None:
    value = {"command": "npx", "args": ["--key", "sk-plain-secret-1"], "env": {"K": "${env:MINE}", "D": "demo"}}
    user.write_file("cursor", json.dumps({"mcpServers": {"demo": value}}, indent=2).encode())
    for words in (
        ("install", "cursor", user.project / "demo.py", "--force"),
        ("uninstall", "cursor", "demo", "--force"),
    ):
        text = get_difference(user, *words)
        for word in ('"demo": {', '"npx"'):
            assert word in text or words[0] == "install"
        assert "--key" not in text
    assert '"K": "${env:MINE}"' in text
    assert '"D": "…"' in text


@pytest.mark.parametrize("command", ["env KEY=sk-plain-secret-1 node", "KEY=sk-plain-secret-1"])
def test_a_command_with_a_value_in_it_is_not_shown(command: str, user: ClientHome) -> None:
    path = user.write_file("cursor", json.dumps({"mcpServers": {"demo": {"command": command}}}, indent=2).encode())
    result = user.run("install", "cursor", user.project / "demo.py", check=2)
    assert f"{path}: Cursor has another server named 'demo'. Choose" in result.stderr
    get_difference(user, "uninstall", "cursor", "demo", "--force")


def test_a_default_in_a_reference_is_a_value(user: ClientHome) -> None:
    value = {"command": OLD, "args": ["serve", "x.py"], "env": {"K": "${K:-sk-plain-secret-1}", "L": "${LIBRARY}"}}
    user.write_file("claude-code", json.dumps({"mcpServers": {"demo": value}}, indent=2).encode())
    text = get_difference(user, "uninstall", "claude-code")
    assert '"K": "…"' in text
    assert '"L": "${LIBRARY}"' in text

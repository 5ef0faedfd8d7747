"""A client's own command line is used only on request, and undone if it changes anything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kits.clients.clients_running import COMMAND, FILES, ClientHome, make_home, read_golden_file, split_case

FAKE = """
import json, os, pathlib, sys

words, mode = sys.argv[1:], os.environ.get("FAKE_MODE", "")
log = pathlib.Path(os.environ["HOME"], "called.json")
log.write_text(json.dumps([words, os.getcwd(), sys.stdin.read()]))
if mode == "fail":
    print("the registry of servers is closed today")
    sys.exit(3)
if mode == "nothing":
    sys.exit(0)
scope = words[words.index("--scope") + 1]
path = pathlib.Path(".mcp.json") if scope == "project" else pathlib.Path(os.environ["HOME"], ".claude.json")
if mode == "break":
    path.write_text("{")
    sys.exit(0)
data = json.loads(path.read_text()) if path.exists() else {}
keys = ["projects", os.getcwd(), "mcpServers"] if scope == "local" else ["mcpServers"]
servers = data
for key in keys:
    servers = servers.setdefault(key, {})
if mode == "others":
    servers.clear()
if words[1] == "remove":
    del servers[words[-1]]
else:
    dashes = words.index("--")
    name = words[words.index("--scope") + 2]
    env = [word for flag, word in zip(words[:dashes], words[1:dashes]) if flag == "-e"]
    command = "elsewhere" if mode == "other entry" else words[dashes + 1]
    servers[name] = {"type": "stdio", "command": command, "args": words[dashes + 2:],
                     "env": dict(pair.split("=", 1) for pair in env)}
data["firstStartTime"] = "now"
if mode == "drops":
    del data["numStartups"]
path.write_text(json.dumps(data, indent=2))
"""
USE = "--use-client-command"
SECRET = "a-value-that-no-output-may-contain"
CLAUDE = [case for case in FILES if split_case(case)[0] == "claude-code"]


@pytest.fixture
def user(tmp_path: Path) -> ClientHome:
    machine = make_home(tmp_path)
    machine.write_program("claude", FAKE)
    return machine


def read_call(user: ClientHome) -> list[str]:
    words, folder, text = json.loads((user.home / "called.json").read_text())
    assert folder == str(user.project)
    assert text == ""
    return words


def test_a_name_like_an_option_is_not_passed_to_the_clients_command(user: ClientHome) -> None:
    result = user.run("install", "claude-code", user.settings, "--scope", "user", "--name=--help", USE, check=2)
    assert "would read the name '--help' as an option" in result.stderr
    assert not (user.home / "called.json").exists()
    user.run("install", "claude-code", user.settings, "--scope", "user", "--name=--help")
    assert "--help" in json.loads((user.home / ".claude.json").read_text())["mcpServers"]
    user.run("uninstall", "claude-code", "--scope", "user", "--", "--help")
    assert not (user.home / "called.json").exists()
    assert not (user.home / ".claude.json").exists()


@pytest.mark.parametrize("case", CLAUDE)
def test_the_clients_command_adds_and_removes_the_entry(case: str, user: ClientHome) -> None:
    client, scope = split_case(case)
    before = read_golden_file(case, "before", user)
    path = user.write_file(case, before)
    result = user.run("install", client, user.settings, "--scope", scope, USE)
    assert "installed: 'shelf'" in result.stderr
    assert read_call(user) == ["mcp", "add", "--scope", scope, "shelf", "--", str(COMMAND), "serve", str(user.settings)]
    (backup,) = (user.home / ".local/state/mcp-bridge/backups").iterdir()
    assert backup.read_bytes() == before
    user.run("uninstall", client, "--scope", scope, USE)
    assert read_call(user) == ["mcp", "remove", "--scope", scope, "shelf"]
    assert b'"shelf"' not in path.read_bytes().replace(
        b'"shelf": {\n          "type": "stdio",\n          "command": "other"', b""
    )


def test_the_clients_command_gets_secrets_as_references(tmp_path: Path) -> None:
    user = make_home(tmp_path, SHELF_KEY=SECRET)
    user.write_program("claude", FAKE)
    user.settings.write_text(
        "name: shelf\nstate: {keys: '${SHELF_KEY}'}\nsources:\n  - {type: python, path: tools.py}\n"
    )
    user.run("install", "claude-code", user.settings, USE)
    assert read_call(user)[5:8] == ["-e", "SHELF_KEY=${SHELF_KEY}", "--"]
    assert json.loads(user.path("claude-code").read_text())["mcpServers"]["shelf"]["env"] == {
        "SHELF_KEY": "${SHELF_KEY}"
    }


def test_the_clients_command_is_used_only_on_request(user: ClientHome) -> None:
    path = user.write_file("claude-code", read_golden_file("claude-code", "before", user))
    user.run("install", "claude-code", user.settings)
    assert path.read_bytes() == read_golden_file("claude-code", "after", user)
    user.run("uninstall", "claude-code")
    assert path.read_bytes() == read_golden_file("claude-code", "before", user)
    assert not (user.home / "called.json").exists()


def test_a_dry_run_prints_the_command_and_does_not_run_it(user: ClientHome) -> None:
    result = user.run("install", "claude-code", user.settings, "--dry-run", USE)
    assert result.stdout.split()[1:4] == ["mcp", "add", "--scope"]
    assert str(user.settings) in result.stdout
    assert not (user.home / "called.json").exists()
    assert user.json("install", "claude-code", user.settings, "--dry-run", USE)["command"][1:3] == ["mcp", "add"]


FAULTS = [
    ("fail", "failed with exit code 3"),
    ("nothing", "did not write 'shelf'"),
    ("other entry", "wrote another entry"),
    ("break", "left a file that cannot be read"),
]


@pytest.mark.parametrize(
    ("mode", "why", "there"),
    [
        *((mode, why, there) for mode, why in FAULTS for there in (True, False)),
        ("others", "changed other servers", True),
        ("drops", "removed or changed 'numStartups'", True),
    ],
)
def test_a_wrong_change_of_the_clients_command_is_undone_and_reported(
    mode: str, why: str, there: bool, user: ClientHome
) -> None:
    before = read_golden_file("claude-code", "before", user)
    path = user.write_file("claude-code", before) if there else user.path("claude-code")
    user.environ["FAKE_MODE"] = mode
    result = user.run("install", "claude-code", user.settings, USE, check=1)
    assert why in result.stderr
    assert "--use-client-command" in result.stderr
    assert str(COMMAND) in result.stdout
    assert path.read_bytes() == before if there else not path.exists()
    if mode == "fail":
        assert "the registry of servers is closed today" in result.stderr


def test_a_byte_order_mark_that_the_command_removed_is_restored(user: ClientHome) -> None:
    before = b"\xef\xbb\xbf" + read_golden_file("claude-code", "before", user)
    path = user.write_file("claude-code", before)
    user.write_program("claude", FAKE.replace("path.read_text()", "path.read_text(encoding='utf-8-sig')"))
    user.environ["FAKE_MODE"] = "other entry"
    user.run("install", "claude-code", user.settings, USE, check=1)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", ["fail", "nothing", "others", "break"])
def test_a_failed_removal_is_undone_and_the_file_edited_instead(mode: str, user: ClientHome) -> None:
    path = user.write_file("claude-code", read_golden_file("claude-code", "before", user))
    user.run("install", "claude-code", user.settings, USE)
    expected = json.loads(path.read_text())
    del expected["mcpServers"]["shelf"]
    user.environ["FAKE_MODE"] = mode
    result = user.run("uninstall", "claude-code", USE)
    assert "claude mcp remove: " in result.stderr
    assert json.loads(path.read_text()) == expected


def test_the_clients_command_does_not_run_for_a_broken_file(user: ClientHome) -> None:
    path = user.write_file("claude-code", b'{"mcpServers": {')
    result = user.run("install", "claude-code", user.settings, USE, check=1)
    assert str(path) in result.stderr
    assert not (user.home / "called.json").exists()
    assert path.read_bytes() == b'{"mcpServers": {'


GEMINI = """
import json, os, pathlib, sys
words = sys.argv[1:]
pathlib.Path(os.environ["HOME"], "called.json").write_text(json.dumps([words, os.getcwd(), sys.stdin.read()]))
scope = words[words.index("--scope") + 1]
path = pathlib.Path(os.environ["HOME"] if scope == "user" else ".", ".gemini", "settings.json")
data = json.loads(path.read_text()) if path.exists() else {}
if words[1] == "add":
    name, command = words[4:6]
    data.setdefault("mcpServers", {})[name] = {"command": command, "args": words[words.index("--") + 1:]}
else:
    del data["mcpServers"][words[-1]]
path.parent.mkdir(exist_ok=True)
path.write_text(json.dumps(data))
"""


def test_geminis_command_is_used_where_no_reference_can_get_lost(tmp_path: Path) -> None:
    user = make_home(tmp_path)
    user.write_program("gemini", GEMINI)
    user.write_file("gemini-cli-project", read_golden_file("gemini-cli-project", "before", user))
    user.run("install", "gemini-cli", user.settings, "--scope", "project", USE)
    assert read_call(user) == [
        "mcp",
        "add",
        "--scope",
        "project",
        "shelf",
        str(COMMAND),
        "--",
        "serve",
        str(user.settings),
    ]


def test_geminis_command_is_not_used_where_it_would_write_values_for_references(tmp_path: Path) -> None:
    user = make_home(tmp_path)
    user.write_program("gemini", GEMINI)
    path = user.write_file("gemini-cli", read_golden_file("gemini-cli", "before", user))
    result = user.run("install", "gemini-cli", user.settings, USE, check=2)
    assert "would replace the references" in result.stderr
    user.run("install", "gemini-cli", user.settings)
    assert path.read_bytes() == read_golden_file("gemini-cli", "after", user)
    assert not (user.home / "called.json").exists()


CODEX = """
import json, os, pathlib, sys
words = sys.argv[1:]
pathlib.Path(os.environ["HOME"], "called.json").write_text(json.dumps([words, os.getcwd(), sys.stdin.read()]))
path = pathlib.Path(os.environ["HOME"], ".codex", "config.toml")
dashes = words.index("--")
text = path.read_text() if path.exists() else ""
if os.environ.get("FAKE_MODE") == "comments":
    text = text.replace("# mine", "")
path.parent.mkdir(exist_ok=True)
path.write_text(f"{text}\\n[mcp_servers.{words[2]}]\\ncommand = {json.dumps(words[dashes + 1])}\\n"
                f"args = {json.dumps(words[dashes + 2:])}\\n")
"""


def test_codexs_command_is_not_used_for_secrets_and_projects(tmp_path: Path) -> None:
    user = make_home(tmp_path, SHELF_KEY=SECRET)
    user.write_program("codex", CODEX)
    user.run("install", "codex", user.settings, USE)
    assert read_call(user) == ["mcp", "add", "shelf", "--", str(COMMAND), "serve", str(user.settings)]
    (user.home / "called.json").unlink()
    result = user.run("install", "codex", user.settings, "--scope", "project", USE, check=2)
    assert "cannot change the scope 'project'" in result.stderr
    user.settings.write_text("state: {keys: '${SHELF_KEY}'}\nsources: [{type: python, path: tools.py}]\n")
    result = user.run("install", "codex", user.settings, "--name", "secretive", USE, check=2)
    assert "cannot add references to variables" in result.stderr
    user.run("install", "codex", user.settings, "--name", "secretive")
    assert 'env_vars = ["SHELF_KEY"]' in user.path("codex").read_text()
    assert not (user.home / "called.json").exists()


def test_a_command_that_deletes_a_comment_is_undone(tmp_path: Path) -> None:
    user = make_home(tmp_path, FAKE_MODE="comments")
    user.write_program("codex", CODEX)
    before = b'model = "x"  # mine\n'
    path = user.write_file("codex", before)
    result = user.run("install", "codex", user.settings, USE, check=1)
    assert "removed a comment" in result.stderr
    assert path.read_bytes() == before


def test_a_command_that_only_changes_the_layout_is_reported(user: ClientHome) -> None:
    user.write_file("claude-code", b'{"numStartups":3}')
    assert "changed the layout" in user.run("install", "claude-code", user.settings, USE).stderr


@pytest.mark.parametrize(
    ("client", "problem"),
    [("qwen-code", "uses no command of Qwen Code"), ("claude-code", "'claude' is not on the PATH")],
)
def test_a_client_without_a_usable_command_is_reported(client: str, problem: str, tmp_path: Path) -> None:
    user = make_home(tmp_path)
    result = user.run("install", client, user.settings, USE, check=2)
    assert problem in result.stderr
    assert not user.path(client).exists()

"""`clients` lists the clients on this machine, and mistakes get a helpful error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_bridge._desktop.table import CLIENTS
from tests.kits.clients.clients_running import COMMAND, FILES, ClientHome, make_home, read_golden_file, split_case


def find_row(answer: list[dict[str, object]], name: str) -> dict[str, object]:
    (result,) = (item for item in answer if item["client"] == name)
    return result


def test_on_an_empty_machine_no_client_is_found(user: ClientHome) -> None:
    answer = user.json("install")
    assert [item["client"] for item in answer] == list(CLIENTS)
    assert not any(item["found"] for item in answer)
    result = user.run("install")
    assert "not found: claude-desktop, claude-code, vscode" in result.stdout
    assert result.stderr == "\nTo print an entry for a client: mcp-bridge install CLIENT tools.py --print\n"


def test_the_list_shows_what_to_type_next(user: ClientHome) -> None:
    user.write_file("codex", read_golden_file("codex", "after", user))
    user.write_file("cursor", b'{"mcpServers": {"other": {"command": "other"}}}')
    result = user.run("install")
    assert f"user: {user.path('cursor')} (1 server, no bridge)\n" in result.stdout
    assert result.stderr == (
        "\n"
        "To add tools to a client: mcp-bridge install cursor tools.py\n"
        "To check every bridge in a client: mcp-bridge doctor all\n"
        "To remove one: mcp-bridge uninstall codex shelf\n"
    )


def test_clients_are_listed_with_their_files_and_bridges(user: ClientHome) -> None:
    for case in FILES:
        if case not in {"claude-code-local", "claude-code-project"}:
            user.write_file(case, read_golden_file(case, "after", user))
    user.write_program("claude", "")
    answer = user.json("install")
    # Visual Studio is a program of Windows, and Crush has no file that can be edited.
    assert [item["client"] for item in answer if not item["found"]] == ["visual-studio", "crush"]
    for case in FILES:
        client, scope = split_case(case)
        (file,) = (file for file in find_row(answer, client)["files"] if file["scope"] == scope)
        assert file["path"] == str(user.path(case))
        assert file["problem"] is None
        if case not in {"claude-code-local", "claude-code-project"}:
            assert file["exists"]
            assert file["bridges"] == [{"name": "shelf", "serves": str(user.settings)}]
    text = user.run("install").stdout
    assert text.count("bridge 'shelf' serves") == len(FILES) - 2
    assert "not-to-be-shown" not in text + json.dumps(answer)


def test_an_unreadable_file_is_reported_in_its_line_and_the_others_are_listed(user: ClientHome) -> None:
    path = user.write_file("cursor", b'{"mcpServers": {"a": {"env": {"K": "not-to-be-shown"},}}')
    user.write_file("codex", read_golden_file("codex", "after", user))
    user.path("goose").mkdir(parents=True)
    result = user.run("install")
    assert f"user: {path}\n    PROBLEM: line 1: not valid JSON" in result.stdout
    assert f"user: {user.path('goose')}\n    PROBLEM: " in result.stdout
    assert "bridge 'shelf' serves" in result.stdout
    assert "not-to-be-shown" not in result.stdout
    (file, _) = find_row(user.json("install"), "cursor")["files"]
    assert file["problem"]


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        ({"command": "/opt/bin/mcp-bridge", "args": ["serve", "x.py"]}, True),
        ({"command": "C:\\Tools\\mcp-bridge.exe", "args": ["serve", "x.py"]}, True),
        ({"command": "python3", "args": ["-m", "mcp_bridge", "serve", "x.py"]}, True),
        ({"command": "uvx", "args": ["--from", "mcp-tool-bridge", "mcp-bridge", "serve", "x.py"]}, True),
        ({"command": "uvx", "args": ["mcp-bridge", "config.json"]}, False),
        ({"command": "node", "args": ["mcp-bridge.js"]}, False),
        ({"url": "http://127.0.0.1:8808/mcp"}, False),
        ({}, False),
    ],
)
def test_a_bridge_is_recognized_by_its_command(value: object, is_one: bool, user: ClientHome) -> None:
    user.write_file("cursor", json.dumps({"mcpServers": {"some": value}}).encode())
    (file, _) = find_row(user.json("install"), "cursor")["files"]
    assert bool(file["bridges"]) == is_one
    assert file["servers"] == ["some"]


@pytest.mark.parametrize(
    ("message", "suggestion"),
    [
        ("claude", "claude-desktop or claude-code?"),
        ("agy", "antigravity?"),
        ("Visual Studio", "visual-studio?"),
        ("gemini", "gemini-cli?"),
        ("code", "vscode?"),
        ("VS Code", "vscode?"),
        ("Copilot", "copilot-cli?"),
        ("cn", "continue?"),
        ("vs-code", "vscode"),
        ("Cursr", "cursor"),
    ],
)
def test_an_unknown_client_is_reported_with_the_nearest_one(message: str, suggestion: str, user: ClientHome) -> None:
    result = user.run("install", message, check=2)
    assert f"unknown client '{message}'" in result.stderr
    assert f"Did you mean {suggestion}" in result.stderr
    assert "Known clients: claude-desktop, claude-code" in result.stderr


def test_an_unknown_client_without_a_similar_one_is_reported_with_all(user: ClientHome) -> None:
    assert "Did you mean cursor" in user.run("uninstall", "Cursr", check=2).stderr
    assert "Known clients: claude-desktop, claude-code" in user.run("install", "qqqq", check=2).stderr
    assert "CLIENT: no client was given" in user.run("install", "--dry-run", check=2).stderr


def test_a_file_in_the_place_of_the_client_is_recognised(user: ClientHome) -> None:
    result = user.run("install", "shelf_tools.py", "cursor", check=2)
    assert "unknown client 'shelf_tools.py'. Put the client before the file. Known clients: " in result.stderr


def test_an_unknown_scope_is_reported_with_the_known_ones(user: ClientHome) -> None:
    result = user.run("install", "codex", user.settings, "--scope", "local", check=2)
    assert "Codex has no scope 'local'. It has: user, project." in result.stderr.replace("--scope: ", "")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["absent.yaml"], "no such file"),
        (["absent.py"], "no such file or folder"),
        (["notes.txt"], "this file cannot be served"),
        (["broken.yaml"], "broken.yaml:1"),
        (["shelf.yaml", "--name", "a name"], "is not a valid server name"),
        (["shelf.yaml", "--name", "../x"], "is not a valid server name"),
        ([], "no file was given, and the current folder has no default file"),
    ],
)
def test_a_file_that_cannot_be_served_is_not_installed(words: list[str], why: str, user: ClientHome) -> None:
    (user.project / "tools.py").rename(user.project / "shelf_tools.py")
    (user.project / "notes.txt").write_text("x")
    (user.project / "broken.yaml").write_text("sorces: []\n")
    result = user.run("install", "cursor", *words, check=2)
    assert why in result.stderr
    assert not user.path("cursor").exists()


@pytest.mark.parametrize(
    ("served", "name"),
    [
        ("tools.py", "project"),
        ("shelf_tools.py", "shelf_tools"),
        ("shelf.yaml", "shelf"),
        (".", "project"),
        ("named.yaml", "My-fine-tools"),
        ("mcp-bridge.yaml", "project"),
        ("Werkzeuge-äöü.py", "Werkzeuge"),
        ("äöü.py", "mcp-bridge"),
    ],
)
def test_the_name_is_that_of_the_settings_or_the_file(served: str, name: str, user: ClientHome) -> None:
    sources = "sources: [{type: python, path: tools.py}]\n"
    (user.project / "named.yaml").write_text(f"name: My fine (tools)!\n{sources}")
    (user.project / "mcp-bridge.yaml").write_text(sources)
    for file in ("shelf_tools.py", "Werkzeuge-äöü.py", "äöü.py"):
        (user.project / file).write_text((user.project / "tools.py").read_text())
    assert user.json("install", "cursor", served, "--print")["name"] == name


def test_the_entry_has_absolute_paths(user: ClientHome) -> None:
    entry = user.json("install", "cursor", "./shelf.yaml", "--print")["entry"]
    assert entry == {"command": str(COMMAND), "args": ["serve", str(user.settings)]}


def test_a_link_is_printed_and_nothing_written(user: ClientHome) -> None:
    result = user.run("install", "cursor", user.settings, "--link")
    assert result.stdout.startswith("cursor://anysphere.cursor-deeplink/mcp/install?name=shelf&config=")
    assert not user.path("cursor").exists()
    assert "no install links for 'zed'" in user.run("install", "zed", user.settings, "--link", check=2).stderr


def test_a_folder_without_permission_does_not_break_the_list(tmp_path: Path) -> None:
    # The path is too long for the system, even for a user who may read all folders.
    user = make_home(tmp_path, CODEX_HOME="/" + "a" * 300)
    user.write_file("cursor", read_golden_file("cursor", "after", user))
    user.path("goose").parent.mkdir(parents=True)
    user.path("goose").parent.chmod(0)
    result = user.run("install")
    user.path("goose").parent.chmod(0o700)
    assert "bridge 'shelf' serves" in result.stdout
    assert "PROBLEM: cannot be read: File name too long" in result.stdout
    assert os.geteuid() == 0 or "PROBLEM: cannot be read: Permission denied" in result.stdout


@pytest.mark.parametrize(
    ("home", "words"),
    [
        ("", ["install", "cursor", "shelf.yaml"]),
        ("relative", ["install"]),
        ("./here", ["uninstall", "cursor"]),
    ],
)
def test_a_relative_home_is_rejected(home: str, words: list[str], tmp_path: Path) -> None:
    user = make_home(tmp_path, HOME=home)
    before = [*user.files()]
    result = user.run(*words, check=2)
    assert "HOME: not an absolute path" in result.stderr
    assert [*user.files()] == before


def test_a_folder_without_tools_is_not_installed(user: ClientHome) -> None:
    (user.project / "empty").mkdir()
    (user.project / "empty" / "_hidden.py").write_text("")
    result = user.run("install", "cursor", "empty", check=2)
    assert "empty: this folder has no Python file to serve" in result.stderr
    assert not user.path("cursor").exists()


@pytest.mark.parametrize("options", [["--print", "--link"], ["--dry-run", "--link"], ["--print", "--dry-run"]])
def test_options_with_different_outputs_exclude_each_other(options: list[str], user: ClientHome) -> None:
    result = user.run("install", "cursor", user.settings, *options, check=2)
    assert "cannot be used with" in result.stderr
    assert not result.stdout


def test_uninstalling_a_missing_server_reports_this(user: ClientHome) -> None:
    result = user.run("uninstall", "cursor", check=2)
    assert "no bridge is installed in Cursor" in result.stderr
    assert f"Looked at: {user.path('cursor')}, {user.path('cursor-project')}." in result.stderr
    assert "Cursor has no server 'shelf'" in user.run("uninstall", "cursor", "shelf", check=2).stderr


def test_uninstalling_an_unknown_name_lists_the_bridges(user: ClientHome) -> None:
    user.run("install", "cursor", user.settings, "--no-check")
    result = user.run("uninstall", "cursor", "tools.py", check=2)
    assert "Cursor has no server 'tools.py'. Its bridges: shelf. Looked at: " in result.stderr


def test_with_several_bridges_a_name_is_required(user: ClientHome) -> None:
    bridge = {"command": "mcp-bridge", "args": ["serve", "x.py"]}
    path = user.write_file("cursor", json.dumps({"mcpServers": {"one": bridge, "two": bridge}}).encode())
    result = user.run("uninstall", "cursor", check=2)
    assert "2 bridges. Pass the name of one, or --all:\n  one serves x.py\n  two serves x.py" in result.stderr
    user.run("uninstall", "cursor", "one")
    assert list(json.loads(path.read_text())["mcpServers"]) == ["two"]
    # This removes the last entry.
    user.run("uninstall", "cursor")
    assert json.loads(path.read_text())["mcpServers"] == {}


@pytest.mark.parametrize("name", [["shelf"], []])
def test_without_a_scope_only_the_first_is_meant(name: list[str], user: ClientHome) -> None:
    for scope in ("user", "project"):
        user.run("install", "cursor", user.settings, "--scope", scope)
    user.run("uninstall", "cursor", *name)
    assert not user.path("cursor").exists()
    result = user.run("uninstall", "cursor", *name, check=2)
    assert "in its scope 'user'. There is one in: project. Choose one with --scope." in result.stderr
    assert "shelf" in user.path("cursor-project").read_text()
    user.run("uninstall", "cursor", *name, "--scope", "project")
    assert not user.path("cursor-project").exists()


def test_the_error_for_a_scope_without_a_bridge_has_the_scopes_with_one(user: ClientHome) -> None:
    for scope in ("project", "local"):
        user.run("install", "claude-code", user.settings, "--scope", scope)
    before = {path: path.read_bytes() for path in user.files()}
    assert "There is one in: project, local." in user.run("uninstall", "claude-code", check=2).stderr
    assert {path: path.read_bytes() for path in user.files()} == before


def test_a_broken_file_of_another_scope_does_not_stop_the_removal(user: ClientHome) -> None:
    user.run("install", "cursor", user.settings)
    user.write_file("cursor-project", b"{")
    user.run("uninstall", "cursor")
    assert not user.path("cursor").exists()


def test_an_installation_into_a_project_warns_of_paths_of_this_machine(user: ClientHome) -> None:
    result = user.run("install", "vscode", user.settings, "--scope", "project")
    assert "absolute paths of this machine" in result.stderr


def test_an_installation_succeeds_without_a_writable_journal(user: ClientHome) -> None:
    state = user.home / ".local" / "state"
    state.parent.mkdir()
    state.write_text("in the way")
    result = user.run("install", "cursor", user.settings)
    assert "could not be recorded" in result.stderr
    assert "shelf" in user.path("cursor").read_text()


def test_a_file_is_not_changed_if_its_backup_cannot_be_written(user: ClientHome) -> None:
    before = read_golden_file("cursor", "before", user)
    path = user.write_file("cursor", before)
    state = user.home / ".local" / "state"
    state.parent.mkdir()
    state.write_text("in the way")
    result = user.run("install", "cursor", user.settings, check=1)
    assert f"{state}/mcp-bridge/backups" in result.stderr
    assert "Without a backup, no file is changed." in result.stderr
    assert str(COMMAND) in result.stdout
    assert path.read_bytes() == before


@pytest.mark.parametrize("words", [["install"], ["install", "cursor", "shelf.yaml"], ["uninstall", "cursor"]])
def test_the_commands_import_no_server(words: list[str], user: ClientHome) -> None:
    user.run("install", "cursor", user.settings)
    code = (
        "import sys\nfrom mcp_bridge._cli.app import app\n"
        f"try:\n    app({words})\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print(sorted({'mcp', 'starlette', 'httpx2', 'uvicorn'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=user.project,
        env=user.environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert result.stdout.splitlines()[-1] == "[]", result.stderr


def test_an_environment_that_uvx_has_made_for_once_is_not_installed(
    user: ClientHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/home/someone/.cache/uv/archive-v0/Xy12/bin/python")
    result = user.run("install", "cursor", user.settings, check=2)
    assert "uv tool install mcp-tool-bridge" in result.stderr
    assert not user.path("cursor").exists()


def test_without_a_console_script_the_interpreter_is_named(user: ClientHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(user.bin / "python3"))
    entry = user.json("install", "opencode", user.settings)["entry"]
    assert entry["command"] == [str(user.bin / "python3"), "-m", "mcp_bridge", "serve", str(user.settings)]
    result = user.run("uninstall", "opencode")
    assert "removed: 'shelf'" in result.stderr

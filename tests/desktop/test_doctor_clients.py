"""`doctor CLIENT` starts the installed servers of a client in the same way as the client."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kits.clients.doctoring import ERAS, LIGHT, ONE_ERA, TOOLS, DoctorHome, make_home

# Each test starts several servers, one after the other.


@pytest.fixture
def user(tmp_path: Path) -> DoctorHome:
    """Return a user with a home and a project with tools."""
    return make_home(tmp_path)


def test_a_healthy_entry_passes_in_both_eras_and_its_start_is_timed(user: DoctorHome) -> None:
    user.write_entry(*user.make_serve_command())
    result = user.doctor("gemini-cli")
    assert (result.code, result.err) == (0, "")
    server = result.server
    assert (server["client"], server["scope"], server["name"]) == ("gemini-cli", "user", "shelf")
    assert server["path"] == str(user.gemini)
    assert server["command"] == list(map(str, user.make_serve_command()))
    assert [check["check"] for check in server["checks"]] == [*ERAS, "start", "call of 'where'"]
    assert all(check["ok"] and not check["advice"] for check in server["checks"]), server["checks"]
    assert 0 < server["first_answer"] < server["patience"] == 600


def test_doctor_prints_a_line_for_each_check_and_a_warning_for_a_disabled_entry(user: DoctorHome) -> None:
    user.write_entry(*user.write_light_server(), disabled=True)
    result = user.run("doctor", "gemini-cli", "--name", "shelf")
    assert (result.code, result.err) == (0, "")
    head, file, command, folder, warning, advice, *checks = result.out.splitlines()
    assert head == "Gemini CLI 'shelf' (user)"
    assert file == f"file: {user.gemini}"
    assert command.startswith("command: ")
    assert folder == f"folder: {user.project}"
    assert warning.startswith("warn entry: ")
    assert "Enable it" in advice
    assert [check[:4] for check in checks] == ["ok  "] * 4


@pytest.mark.skipif(sys.platform != "linux", reason="where the file is, and the bare PATH, are those of Linux")
def test_a_desktop_app_starts_an_entry_with_a_bare_path_in_another_folder(user: DoctorHome) -> None:
    path = user.home / ".config" / "Claude" / "claude_desktop_config.json"
    path.parent.mkdir(parents=True)
    command, *args = map(str, user.write_light_server())
    path.write_text(json.dumps({"mcpServers": {"shelf": {"command": command, "args": args}}}))
    result = user.doctor("claude-desktop", "--name", "shelf", env={"MY_TOKEN": "t0p-secret"})
    assert result.code == 0
    (answer,) = [check for check in result.server["checks"] if check["check"] == "call of 'where'"]
    assert answer["detail"].endswith("'/ /usr/bin:/bin:/usr/sbin:/sbin None'")


def test_an_unreadable_file_is_reported_with_its_line_and_the_others_are_checked(user: DoctorHome) -> None:
    user.claude.write_text('{\n  "mcpServers": {,}\n}')
    (user.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"shelf": {"command": "no-such-thing-here"}}}))
    result = user.doctor("claude-code", "--name", "shelf")
    assert result.code == 1
    servers = json.loads(result.out)["servers"]
    files = [item for item in servers if item["checks"][0]["check"] == "file"]
    # The file is listed once, though it has entries of two scopes.
    assert [item["path"] for item in files] == [str(user.claude)]
    assert f"{user.claude}:2" in files[0]["checks"][0]["detail"]
    assert files[0]["checks"][0]["advice"]
    assert [item["checks"][0]["check"] for item in servers if item["name"] == "shelf"] == ["command"]


def test_for_a_client_without_a_bridge_the_install_command_is_shown(user: DoctorHome) -> None:
    result = user.doctor("gemini-cli")
    assert result.code == 1
    assert result.failures["entry"].startswith(f"no bridge in {user.home / '.gemini' / 'settings.json'}")
    assert result.advice["entry"].startswith("Install one: `mcp-bridge install gemini-cli FILE`.")


def test_an_unknown_server_is_reported_with_the_known_ones(user: DoctorHome) -> None:
    user.write_entry(*user.make_serve_command())
    result = user.doctor("gemini-cli", "--name", "shelves")
    assert result.code == 1
    assert result.failures["entry"].endswith("; the servers there are: shelf")


def test_a_vanished_entry_is_reported_with_its_date(user: DoctorHome) -> None:
    assert user.run("install", "gemini-cli", user.tools, "--name", "shelf").code == 0
    user.gemini.write_text("{}")
    result = user.doctor("gemini-cli")
    assert result.code == 1
    assert result.server["name"] == "shelf"
    assert "but is no longer in the file" in result.failures["entry"]
    assert f"mcp-bridge install gemini-cli '{user.tools}' --name shelf" in result.advice["entry"]
    user.gemini.unlink()
    assert "The file was deleted" in user.doctor("gemini-cli").advice["entry"]


def test_a_vanished_entry_of_claude_desktop_recommends_a_bundle_before_the_command(user: DoctorHome) -> None:
    assert user.run("install", "claude-desktop", user.tools, "--name", "shelf").code == 0
    (user.home / ".config" / "Claude" / "claude_desktop_config.json").write_text("{}")
    advice = user.doctor("claude-desktop").advice["entry"]
    bundle, command = advice.split(". Install it again: ")
    assert "mcp-bridge export mcpb" in bundle
    assert command == f"mcp-bridge install claude-desktop '{user.tools}' --name shelf"
    user.write_entry(user.home / "gone", "-m", "mcp_bridge", "serve", user.tools, name="renamed")
    assert user.doctor("gemini-cli").server["name"] == "renamed"


def test_a_vanished_entry_of_a_project_is_reported_only_in_this_project(user: DoctorHome) -> None:
    words = ("install", "claude-code", user.tools, "--name", "shelf", "--scope", "local")
    assert user.run(*words).code == 0
    user.claude.write_text("{}")
    assert "--scope local --name shelf" in user.doctor("claude-code").advice["entry"]
    (user.project / "other" / ".git").mkdir(parents=True)
    elsewhere = replace(user, project=user.project / "other")
    assert elsewhere.doctor("claude-code").failures["entry"].startswith("no bridge in")


def test_values_of_the_entry_and_secrets_are_never_shown(user: DoctorHome) -> None:
    server = (
        "import os, sys; print('token is', os.environ['MY_TOKEN'], os.environ['PLAIN'], file=sys.stderr); sys.exit(9)"
    )
    user.write_entry(sys.executable, "-c", server, "${MY_TOKEN}", env={"PLAIN": "n0t-shown", "MY_TOKEN": "${MY_TOKEN}"})
    for result in (
        user.doctor("gemini-cli", "--name", "shelf", env={"MY_TOKEN": "t0p-secret"}),
        user.run("doctor", "gemini-cli", "--name", "shelf", env={"MY_TOKEN": "t0p-secret"}),
    ):
        assert result.code == 1
        assert "ended with exit code 9" in result.out + result.err
        assert "[secret]" in result.out + result.err
        assert "t0p-secret" not in result.out + result.err
        assert "n0t-shown" not in result.out + result.err


def test_a_secret_in_the_arguments_is_not_shown(user: DoctorHome) -> None:
    user.write_entry("/bin/echo", "${MY_PAPERS}")
    result = user.doctor("gemini-cli", "--name", "shelf", env={"MY_PAPERS": "t0p-secret"})
    assert result.server["command"] == ["/bin/echo", "[secret]"]
    assert "t0p-secret" not in result.out + result.err


def test_a_named_tool_is_called_with_its_arguments(user: DoctorHome) -> None:
    user.write_entry(*user.write_light_server())
    result = user.doctor("gemini-cli", "--name", "shelf", "--call", 'add={"a": 19, "b": 23}')
    assert result.code == 0
    assert result.server["checks"][-1]["check"] == "call of 'add'"
    assert result.server["checks"][-1]["detail"].endswith("s: '42'")


def test_a_failing_tool_and_a_missing_tool_are_findings(user: DoctorHome) -> None:
    user.write_entry(*user.write_light_server())
    failed = user.doctor("gemini-cli", "--name", "shelf", "--call", "fail").failures
    assert "it returned an error" in failed["call of 'fail'"]
    result = user.doctor("gemini-cli", "--name", "shelf", "--call", "nothing")
    assert result.failures == {"call": "there is no tool 'nothing'"}
    assert "add, fail, where" in result.advice["call"]


def test_only_read_only_tools_are_called(user: DoctorHome) -> None:
    user.write_entry(*user.write_light_server())
    (user.project / "light.py").write_text(LIGHT.replace("readOnlyHint", "openWorldHint"))
    result = user.doctor("gemini-cli", "--name", "shelf")
    assert result.code == 0
    assert "callable without arguments; choose one with --call TOOL" in result.out
    assert "call" not in result.advice


def test_a_third_party_server_with_one_era_is_healthy(user: DoctorHome) -> None:
    path = user.project / "server.py"
    path.write_text(ONE_ERA)
    user.write_entry(sys.executable, path, name="other")
    result = user.doctor("gemini-cli", "--name", "other")
    assert result.code == 0
    assert "One era is enough" in result.advice[ERAS[0]]
    assert user.doctor("gemini-cli").failures["entry"].startswith("no bridge in")


def test_all_checks_every_installed_client(user: DoctorHome) -> None:
    empty = {"PATH": "/usr/bin:/bin"}
    result = user.run("doctor", "all", env=empty)
    assert (result.code, result.out) == (2, "")
    assert "no client on this machine has a bridge installed" in result.err
    user.write_entry(*user.make_serve_command())
    path = user.home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"mcpServers": {"shelf": {"command": "/gone/mcp-bridge", "args": ["serve"]}}}))
    words = ("install", "vscode", user.tools, "--scope", "project", "--name", "shelf")
    # The entry is in a file of the project alone.
    assert user.run(*words).code == 0
    vscode = user.project / ".vscode" / "mcp.json"
    vscode.write_text(vscode.read_text().replace(sys.executable.rpartition("/")[0], "/gone"))
    result = user.doctor("all", env=empty)
    assert result.code == 1
    assert {(item["client"], item["scope"]): item["ok"] for item in json.loads(result.out)["servers"]} == {
        ("gemini-cli", "user"): True,
        ("cursor", "user"): False,
        ("vscode", "project"): False,
    }


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("claud-code",), "'claud-code' is neither a client nor an existing file. Did you mean claude-code"),
        (("xyzzy",), "'xyzzy' is neither a client nor an existing file. Known clients: claude-desktop, "),
        (("codex", "--scope", "local"), "--scope: Codex has no scope 'local'. It has: user, project."),
        (("tools.py", "--scope", "user"), "--scope: needs a client"),
        (("tools.py", "--name", "x"), "--name: needs a client"),
        (("codex", "--call", "x={"), "--call: the arguments are not JSON"),
        (("codex", "--call", "x=[]"), "--call: the arguments are list, not an object"),
        (("codex", "--call", "={}"), "--call: the name of the tool is missing"),
        (("codex", "--command", "x"), "--command: cannot be used with 'codex'"),
    ],
)
def test_options_that_cannot_be_used_are_a_usage_error(user: DoctorHome, words: tuple[str, ...], problem: str) -> None:
    result = user.run("doctor", *words)
    assert (result.code, result.out) == (2, "")
    assert problem in result.err


def test_a_folder_with_a_clients_name_is_reached_by_its_path(user: DoctorHome) -> None:
    (user.project / "cursor").mkdir()
    (user.project / "cursor" / "tools.py").write_text(TOOLS)
    result = user.run("doctor", f".{os.sep}cursor")
    assert result.code == 0, result.out
    assert "3 tools" in result.out

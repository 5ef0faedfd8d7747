"""`doctor CLIENT` names the cause of each fault, and the cure."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mcp_bridge._cli.doctor.preflight import find_python
from mcp_bridge._desktop import servers
from mcp_bridge._desktop.table import CLIENTS
from mcp_bridge._protocol.dialects.table import PROFILES
from tests.kits.clients.doctoring import ERAS, TOOLS, DoctorHome, make_home, write_script

# Each test starts several servers, one after the other.
REFERRING = '''
from mcp_bridge import tool

PARTS = {"p0": {"type": "string"}}
for n in range(1, 7):  # more parts than are inlined
    PARTS[f"p{n}"] = {"type": "object", "properties": {key: {"$ref": f"#/$defs/p{n - 1}"} for key in "abcd"}}


@tool(input_schema={"type": "object", "properties": {"part": {"$ref": "#/$defs/p6"}}, "$defs": PARTS})
def deep(part: dict) -> None:
    """Take much."""
'''


@pytest.fixture
def user(tmp_path: Path) -> DoctorHome:
    """Return a user with a home and a project with tools."""
    return make_home(tmp_path)


def test_a_missing_program_is_reported_with_the_command_that_fixes_it(user: DoctorHome) -> None:
    user.write_entry(user.home / "gone" / "mcp-bridge", "serve", user.tools)
    result = user.doctor("gemini-cli")
    assert result.code == 1
    assert result.failures == {"command": f"{user.home / 'gone' / 'mcp-bridge'} does not exist"}
    assert f"mcp-bridge install gemini-cli '{user.tools}' --name shelf" in result.advice["command"]


def test_a_program_that_is_a_folder_or_not_executable_is_reported(user: DoctorHome) -> None:
    (user.project / "mcp-bridge").mkdir()
    user.write_entry(user.project / "mcp-bridge", "serve", user.tools)
    assert user.doctor("gemini-cli").failures["command"].endswith("is a folder, not a program")
    (user.project / "mcp-bridge").rmdir()
    (user.project / "mcp-bridge").write_text("#!/bin/sh\n")
    result = user.doctor("gemini-cli")
    assert result.failures["command"].endswith("is not executable")
    assert "chmod +x" in result.advice["command"]


def test_a_moved_environment_is_distinguished_from_a_missing_program(user: DoctorHome) -> None:
    program = user.project / "mcp-bridge"
    program.write_text(f"#!{user.home}/gone/bin/python\n")
    program.chmod(0o755)
    user.write_entry(program, "serve", user.tools)
    result = user.doctor("gemini-cli")
    assert result.failures == {"command": f"{program} runs on {user.home}/gone/bin/python, which does not exist"}


def test_a_command_without_a_path_is_searched_on_the_clients_path(user: DoctorHome) -> None:
    user.write_entry("mcp-bridge", "serve", user.tools)
    result = user.doctor("gemini-cli", env={"PATH": "/usr/bin:/bin"})
    assert result.failures == {"command": "'mcp-bridge' is not on the PATH of Gemini CLI"}
    write_script(user, f'exec {sys.executable} -m mcp_bridge "$@"').rename(user.home / "mcp-bridge")
    result = user.doctor("gemini-cli", env={"PATH": f"{user.home}:/usr/bin:/bin"})
    assert result.code == 0
    assert "Use an absolute path" in result.advice["command"]


def test_relative_paths_are_reported_with_the_folder_in_which_they_work(user: DoctorHome) -> None:
    write_script(user, f'exec {sys.executable} -m mcp_bridge "$@"').rename(user.project / "mcp-bridge")
    user.write_entry("./mcp-bridge", "serve", "tools.py")
    result = user.doctor("gemini-cli")
    assert result.code == 0
    assert "Use an absolute path" in result.advice["command"]
    assert "Use an absolute path" in result.advice["settings"]
    user.write_entry(*user.make_serve_command("other/tools.py"))
    result = user.doctor("gemini-cli")
    assert result.failures == {"settings": "other/tools.py does not exist"}
    assert "A relative path starts at" in result.advice["settings"]


def test_moved_settings_are_reported_before_any_process_starts(user: DoctorHome) -> None:
    user.write_entry(*user.make_serve_command(user.home / "mcp-bridge.yaml"))
    result = user.doctor("gemini-cli")
    assert result.code == 1
    assert result.failures == {"settings": f"{user.home / 'mcp-bridge.yaml'} does not exist"}
    assert "mcp-bridge install gemini-cli FILE --name shelf" in result.advice["settings"]


def test_an_entry_without_settings_is_a_warning(user: DoctorHome) -> None:
    user.write_entry(*user.make_serve_command()[:-1])
    result = user.doctor("gemini-cli")
    assert result.code == 0
    assert "Add the file" in result.advice["settings"]


def test_settings_are_distinguished_from_values_of_options(user: DoctorHome) -> None:
    words = [*user.make_serve_command(), "--log-level", "debug", "--http=1"]
    for args in (words[3:], [*words[3:4], *words[5:], words[4]]):
        entry = {"command": "x", "args": list(map(str, args))}
        assert servers.get_served_settings(CLIENTS["gemini-cli"], entry) == str(user.tools)
    assert servers.find_settings_argument(["mcp-bridge", "serve", "--log-level", "debug"]) is None


def test_a_missing_file_in_the_settings_is_reported_with_both_places_to_fix(user: DoctorHome) -> None:
    settings = user.project / "s.yaml"
    settings.write_text("sources: [{type: python, path: gone.py}]\n")
    user.write_entry(*user.make_serve_command(settings))
    result = user.doctor("gemini-cli")
    assert result.failures[ERAS[0]].startswith(f"{user.project / 'gone.py'} does not exist")
    assert "in the settings that name it, or install again: mcp-bridge install gemini-cli" in result.advice[ERAS[0]]
    # The cause is the same although the time in the log differs.
    assert result.advice[ERAS[1]] == "The cause is the same."


def test_an_entry_that_serves_over_http_is_not_started(user: DoctorHome) -> None:
    user.write_entry(*user.make_serve_command(), "--http", "8000")
    result = user.doctor("gemini-cli")
    assert list(result.failures) == ["command"]
    assert "Remove the option: mcp-bridge install" in result.advice["command"]


def test_a_launcher_may_find_the_settings_where_it_starts_the_bridge(user: DoctorHome) -> None:
    (user.project / "elsewhere").mkdir()
    user.tools.rename(user.project / "elsewhere" / "s.py")
    user.write_entry(write_script(user, 'cd elsewhere\nexec "$@"'), *user.make_serve_command("s.py"))
    assert user.doctor("gemini-cli").code == 0
    user.write_entry(write_script(user, 'cd elsewhere\nexec "$@"'), *user.make_serve_command("s.yaml"))
    assert "s.yaml does not exist" in user.doctor("gemini-cli").failures[ERAS[0]]


def test_the_python_of_a_script_is_the_one_in_its_first_line(tmp_path: Path) -> None:
    program = tmp_path / "mcp-bridge"
    # The second form is used where the path of a folder has a space.
    for line in ("#!/usr/bin/env python3", "#!/bin/sh"):
        program.write_text(f"{line}\n")
        assert find_python(str(program)) == "python"
    program.write_text("#!/some/where/python3.12\n")
    assert find_python(str(program)) == "/some/where/python3.12"
    program.write_text("#!/bin/sh\n")
    (tmp_path / "python").write_text("")
    assert find_python(str(program)) == str(tmp_path / "python")
    assert find_python("uv") == "python"


def test_a_path_that_no_system_takes_is_a_finding(user: DoctorHome) -> None:
    for path in ("/" + "x" * 300, "/x\0", "/x\ud800"):
        user.write_entry(path)
        problem = user.doctor("gemini-cli", "--name", "shelf").failures["command"]
        assert problem.startswith("/x")
        assert problem.endswith("does not exist")


def test_a_python_without_the_package_is_named(user: DoctorHome) -> None:
    user.write_entry(sys.executable, "-S", "-m", "mcp_bridge", "serve", user.tools)
    result = user.doctor("gemini-cli")
    assert result.code == 1
    assert all("mcp_bridge is not installed in the Python of this entry" in result.failures[era] for era in ERAS)
    assert f"{sys.executable} -m pip install mcp-tool-bridge" in result.advice[ERAS[0]]
    assert result.advice[ERAS[1]] == "The cause is the same."


def test_a_module_that_cannot_be_imported_is_named(user: DoctorHome) -> None:
    user.tools.write_text("import nothing_of_this_name\n")
    user.write_entry(*user.make_serve_command())
    result = user.doctor("gemini-cli")
    assert "the module 'nothing_of_this_name' cannot be imported" in result.failures[ERAS[0]]
    assert f"{user.tools}:1: ModuleNotFoundError" in result.advice[ERAS[0]]


def test_a_program_that_prints_to_stdout_is_named(user: DoctorHome) -> None:
    user.write_entry(write_script(user, 'echo Welcome!\nexec "$@"'), *user.write_light_server())
    result = user.doctor("gemini-cli", "--name", "shelf")
    assert "something other than MCP messages is written to stdout" in result.failures[ERAS[0]]
    assert "'Welcome!'" in result.failures[ERAS[0]]
    assert "print to stderr" in result.advice[ERAS[0]]


def test_a_start_that_is_slower_than_the_client_allows_is_measured(user: DoctorHome) -> None:
    path = user.home / ".codex" / "config.toml"
    path.parent.mkdir()
    command, *args = map(str, user.write_light_server())
    path.write_text(
        f"[mcp_servers.shelf]\ncommand = {json.dumps(command)}\nargs = {json.dumps(args)}\nstartup_timeout_sec = 0.01\n"
    )
    result = user.doctor("codex", "--name", "shelf", "--timeout", "60")
    assert result.code == 1
    assert list(result.failures) == ["start"]
    assert result.failures["start"].endswith("s; Codex waits 0.01 s")
    assert "'startup_timeout_sec' in the entry" in result.advice["start"]


def test_a_server_that_never_responds_is_reported_with_its_stderr(user: DoctorHome) -> None:
    user.write_entry(write_script(user, "echo waiting for a database >&2\nsleep 1000"), *user.write_light_server())
    result = user.doctor("gemini-cli", "--name", "shelf", "--timeout", "1")
    assert result.code == 1
    assert result.failures[ERAS[0]].startswith("it does not respond; Gemini CLI times out after 600 s")
    assert "waiting for a database" in result.advice[ERAS[0]]


def test_a_reference_to_a_variable_that_is_not_set_is_named(user: DoctorHome) -> None:
    user.write_entry(*user.write_light_server(), env={"MY_TOKEN": "${NO_SUCH_TOKEN}"})
    result = user.doctor("gemini-cli", "--name", "shelf")
    assert result.code == 1
    assert list(result.failures) == ["secret NO_SUCH_TOKEN"]
    assert result.advice["secret NO_SUCH_TOKEN"]


def test_a_variable_that_the_settings_need_is_named(user: DoctorHome) -> None:
    settings = user.project / "s.yaml"
    settings.write_text("name: ${MY_NAME}\nsources: [{type: python, path: tools.py}]\n")
    path = user.home / ".gemini" / "settings.json"
    path.parent.mkdir()
    command, *args = map(str, user.make_serve_command(settings))
    path.write_text(json.dumps({"mcpServers": {"shelf": {"command": command, "args": args}}}))
    result = user.doctor("gemini-cli", env={"MY_NAME": "x"})
    assert result.code == 1
    assert "the settings need the variable MY_NAME, which Gemini CLI does not pass" in result.failures[ERAS[0]]
    assert f"mcp-bridge install gemini-cli '{settings}' --name shelf" in result.advice[ERAS[0]]


def test_a_tool_that_the_client_rejects_is_named_with_the_cure(user: DoctorHome) -> None:
    user.tools.write_text(TOOLS + f"\n@tool(name={'n' * 60!r})\ndef long() -> str:\n    return ''\n")
    command, *args = map(str, user.make_serve_command())
    user.claude.write_text(json.dumps({"mcpServers": {"shelf": {"command": command, "args": args}}}))
    result = user.doctor("claude-code")
    assert result.code == 1
    check = f"tool '{'n' * 60}'"
    assert f"as 'mcp__shelf__{'n' * 60}'" in result.failures[check]
    assert "alias" in result.advice[check]


def test_a_tool_that_a_dialect_cannot_rewrite_has_another_hint(user: DoctorHome) -> None:
    user.tools.write_text(REFERRING)
    settings = user.project / "s.yaml"
    settings.write_text("dialect: gemini-cli\nsources: [{type: python, path: tools.py}]\n")
    for path, cure in ((user.tools, "Set `dialect: gemini-cli`"), (settings, "It stays although")):
        user.write_entry(*user.make_serve_command(path))
        result = user.doctor("gemini-cli")
        assert list(result.failures) == ["tool 'deep'"]
        assert result.advice["tool 'deep'"].startswith(cure)


def test_every_client_has_a_profile() -> None:
    assert PROFILES.keys() >= CLIENTS.keys()


def test_the_problems_of_validate_are_findings_for_a_file_and_for_an_entry(user: DoctorHome) -> None:
    user.tools.write_text(
        TOOLS
        + '\n@tool(input_schema={"properties": {"a": {"pattern": "(?<=x)"}}})\ndef odd(a: str) -> str:\n    return a\n'
    )
    assert user.run("validate", user.tools).code == 1
    result = user.run("doctor", user.tools)
    assert result.code == 1
    assert result.out.count("FAIL source 'tools': tool 'odd' is not published") == 1
    user.write_entry(*user.make_serve_command())
    assert "tool 'odd' is not published" in user.doctor("gemini-cli").failures["source 'tools'"]


def test_doctor_does_not_wait_for_a_server_that_closes_its_stdout(user: DoctorHome) -> None:
    user.write_entry(write_script(user, "exec >&-\nsleep 1000"), *user.write_light_server())
    result = user.doctor("gemini-cli", "--name", "shelf")
    assert result.code == 1
    assert "the server has closed its output before it responded" in result.failures[ERAS[0]]


def test_a_command_that_no_system_can_start_is_a_finding(user: DoctorHome) -> None:
    user.write_entry(*user.make_serve_command(), "a\0b")
    result = user.doctor("gemini-cli")
    assert result.code == 1
    assert list(result.failures) == [ERAS[0]]
    assert result.failures[ERAS[0]].startswith("Gemini CLI cannot start it")


@pytest.mark.parametrize("entry", ["{}", '{"command": "", "args": {}}'])
def test_an_invalid_entry_is_reported(user: DoctorHome, entry: str) -> None:
    user.gemini.parent.mkdir()
    user.gemini.write_text(f'{{"mcpServers": {{"shelf": {entry}}}}}')
    result = user.doctor("gemini-cli", "--name", "shelf")
    assert result.code == 1
    assert result.failures == {"command": "the entry has no command"}

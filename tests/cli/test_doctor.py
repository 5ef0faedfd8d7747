"""`doctor`: starts a server as a client would and names the cause of what fails."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from mcp_bridge._cli.doctor import conversation
from mcp_bridge._upstream import child
from tests.kits.cli.cli_running import TOOLS, Inside
from tests.kits.upstream.trust_kit import ScriptedGateway, describe_tool

CHECKS = ["stateless 2026-07-28", "handshake 2025-11-25"]
ONE_ERA = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    answer = {"jsonrpc": "2.0", "id": request["id"]}
    if request["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "old one"}}
    elif request["method"] == "tools/list" and "cursor" not in request["params"]:
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}))
        answer["result"] = {"tools": [{"name": "a"}], "nextCursor": "more"}
    elif request["method"] == "tools/list":
        answer["result"] = {"tools": [{"name": "b"}]}
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps(answer), flush=True)
"""
ANSWERS = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **ANSWER(request)}), flush=True)
"""


def command(tmp_path: Path, source: str) -> str:
    """The command of a server that is a script."""
    file = tmp_path / "a server.py"
    file.write_text(source)
    return f"{sys.executable} '{file}'"


def test_a_healthy_file_passes_in_both_eras(inside: Inside) -> None:
    done = inside("doctor", TOOLS)
    assert done.code == 0
    first, *checks = done.out.splitlines()
    assert first == f"command: {sys.executable} -m mcp_bridge serve {TOOLS}"
    assert checks == [
        f"ok   {CHECKS[0]}: 'mcp-bridge' responds, 12 tools",
        f"ok   {CHECKS[1]}: 'mcp-bridge' speaks 2025-11-25, 12 tools",
    ]


def test_json_has_every_documented_key_and_relative_paths_of_the_settings_hold_in_any_folder(
    inside: Inside, tmp_path: Path
) -> None:
    (tmp_path / "tools.py").write_text(TOOLS.read_text())
    (tmp_path / "mcp-bridge.yaml").write_text("name: demo\nsources: [{type: python, path: tools.py}]\n")
    done = inside("doctor", "--json")
    assert done.code == 0
    assert done.json.keys() == {"command", "ok", "checks"}
    assert done.json["ok"] is True
    assert done.json["command"][:3] == [sys.executable, "-m", "mcp_bridge"]
    assert [check["check"] for check in done.json["checks"]] == CHECKS
    for check in done.json["checks"]:
        assert check.keys() == {"check", "ok", "detail", "advice"}
        assert check["ok"] is True
        assert "'demo'" in check["detail"]


def test_an_import_error_is_named_with_file_and_line(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("\nimport nothing_of_this_name\n")
    done = inside("doctor")
    assert done.code == 1
    assert f"FAIL {CHECKS[0]}: the server ended with exit code 1 before it responded to server/discover" in done.out
    assert f"{tmp_path / 'tools.py'}:2: ModuleNotFoundError: No module named 'nothing_of_this_name'" in done.out


def test_the_server_has_the_bare_environment_of_a_client(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "x")
    (tmp_path / "x.py").write_text("import os\n\nprint(os.environ['MY_TOKEN'])\n")
    done = inside("doctor", "x.py")
    assert done.code == 1
    assert "KeyError: 'MY_TOKEN'" in done.out


def test_variables_of_the_settings_are_taken_from_the_shell_with_a_warning(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_TOKEN", raising=False)
    server = {"command": sys.executable, "args": ["-m", "mcp_bridge", "serve", str(TOOLS)]}
    server["env"] = {"A": "${MY_NAME}", "B": "${MY_TOKEN}"}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"inner": server}}))
    missing = inside("doctor", "mcp.json")
    assert missing.code == 1
    assert "the environment variable MY_NAME is not set" in missing.out
    monkeypatch.setenv("MY_NAME", "ann")
    monkeypatch.setenv("MY_TOKEN", "hidden-value")
    server["env"]["B"] = "env:MY_TOKEN"
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"inner": server}}))
    examined = inside("doctor", "mcp.json")
    assert examined.code == 0, examined.out
    assert "warn variables: taken from this shell, as no client does: MY_NAME, MY_TOKEN" in examined.out
    assert "mcp-bridge install CLIENT FILE --env MY_NAME --env MY_TOKEN" in examined.out
    assert "hidden-value" not in examined.out


def check(inside: Inside, command: str, *options: str, timeout: str = "10") -> tuple[int, dict[str, str], str]:
    """The exit code, and what the two checks found, the second one as text."""
    done = inside("doctor", "--command", command, "--timeout", timeout, "--json", *options)
    first, second = done.json["checks"]
    return done.code, first, f"{second['detail']} {second['advice']}"


def test_a_print_on_stdout_is_shown(inside: Inside, tmp_path: Path) -> None:
    code, found, _ = check(inside, command(tmp_path, "print('Listening ...')"))
    assert code == 1
    assert found["detail"] == "a line on stdout is not a message: 'Listening ...'"
    assert "print to stderr" in found["advice"]


def test_json_that_is_not_a_message_is_shown(inside: Inside, tmp_path: Path) -> None:
    _, found, _ = check(inside, command(tmp_path, "print('\\n[1]')"))
    assert found["detail"] == "a line on stdout is not a message: '[1]'"


def test_a_server_that_hangs_times_out_and_its_stderr_is_shown(inside: Inside, tmp_path: Path) -> None:
    source = "import sys, time; print('waiting for a database', file=sys.stderr, flush=True); time.sleep(1000)"
    code, found, _ = check(inside, command(tmp_path, source), timeout="0.5")
    assert code == 1
    assert found["detail"] == "no response to server/discover within 0.5 seconds"
    assert "waiting for a database" in found["advice"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_what_a_hanging_server_started_ends_with_it(inside: Inside, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code, found, _ = check(inside, f"sh -c 'sleep 100 & echo $! >> {pids}; wait'", timeout="0.3")
    assert code == 1
    assert "wrote nothing to stderr" in found["advice"]
    children = [int(pid) for pid in pids.read_text().split()]
    assert len(children) == 2
    assert not [pid for pid in children if is_running(pid)]


def is_running(pid: int) -> bool:
    """Whether a process is there and not merely waiting for its parent to take note of its end."""
    stat = Path(f"/proc/{pid}/stat")
    for _ in range(50):
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        time.sleep(0.02)
    return True


def test_endless_notifications_are_not_a_response(inside: Inside, tmp_path: Path) -> None:
    notice = '{"jsonrpc": "2.0", "method": "notifications/x"}'
    source = f"import time\nwhile True:\n    print({notice!r}, flush=True); time.sleep(0.02)"
    code, found, _ = check(inside, command(tmp_path, source), timeout="0.5")
    assert code == 1
    assert found["detail"] == "no response to server/discover within 0.5 seconds"


def test_an_echo_is_not_a_response(inside: Inside) -> None:
    code, found, _ = check(inside, "cat", timeout="0.3")
    assert code == 1
    assert found["detail"].startswith("no response to server/discover")


def test_the_exit_code_of_a_server_is_reported(inside: Inside, tmp_path: Path) -> None:
    code, found, second = check(inside, command(tmp_path, "import sys; sys.exit('no license')"))
    assert code == 1
    assert found["detail"] == "the server ended with exit code 1 before it responded to server/discover"
    assert found["advice"].splitlines() == ["Its stderr:", "no license"]
    assert "before it responded to initialize" in second


def test_a_missing_command_is_reported(inside: Inside) -> None:
    code, found, _ = check(inside, "no-such-command-anywhere --flag")
    assert code == 1
    assert found["detail"] == "the program 'no-such-command-anywhere' was not found. Install it, or give its full path"
    assert "full path" in found["advice"]


def test_a_server_of_one_era_is_healthy_by_command(inside: Inside, tmp_path: Path) -> None:
    done = inside("doctor", "--command", command(tmp_path, ONE_ERA))
    assert done.code == 0
    assert f"FAIL {CHECKS[0]}: the server does not know server/discover" in done.out
    assert "does not support this protocol version" in done.out
    assert f"ok   {CHECKS[1]}: 'old one' speaks 2025-11-25, 2 tools" in done.out


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("{'error': {'code': -5, 'message': 'go away'}}", "server/discover failed: go away (-5)"),
        ("{'error': 'go away'}", "the response to server/discover is neither a result nor an error"),
        ("{'result': 'yes'}", "the response to server/discover is neither a result nor an error"),
        ("{'result': {}}", "the result of tools/list has no list 'tools'"),
        ("{'result': {'tools': [], 'nextCursor': 'a'}}", "tools/list repeats the cursor 'a'"),
        ("{'result': {'tools': [], 'nextCursor': str(request['id'])}}", "tools/list has more than 1000 pages"),
    ],
)
def test_invalid_responses_are_reported(inside: Inside, tmp_path: Path, answer: str, found: str) -> None:
    source = ANSWERS.replace("ANSWER(request)", answer)
    code, first, _ = check(inside, command(tmp_path, source))
    assert code == 1
    assert first["detail"].startswith(found)
    assert first["advice"]


@pytest.mark.parametrize("odd", ["'serverInfo': 'x'", "'_meta': [1]", "'capabilities': 7"])
def test_a_server_with_an_invalid_introduction_is_checked_anyway(inside: Inside, tmp_path: Path, odd: str) -> None:
    source = ANSWERS.replace("ANSWER(request)", f"{{'result': {{'tools': [], {odd}}}}}")
    code, first, _ = check(inside, command(tmp_path, source))
    assert (code, first["detail"]) == (0, "'the server' responds, 0 tools")


def test_the_last_lines_of_stderr_are_kept(inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "MAX_STDERR", 100)
    source = "import sys; input(); sys.stderr.write('x' * 9_000 + ''.join(f'{n}\\n' for n in range(9_000)))"
    code, found, _ = check(inside, command(tmp_path, source))
    assert code == 1
    assert len(found["advice"]) <= len("Its stderr:") + 100
    assert found["advice"].endswith("8999")


def test_an_endless_line_is_not_a_message(inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "MAX_MESSAGE", 1_000)
    monkeypatch.setattr(child, "MAX_DROPPED", 2_000)
    source = "import sys; sys.stdout.write('x' * 5_000); sys.stdout.flush(); input()"
    code, found, _ = check(inside, command(tmp_path, source))
    assert code == 1
    assert found["detail"].startswith("the server has sent a line without an end before it responded to")


def test_a_server_that_stays_after_the_end_of_input_is_ended(inside: Inside, tmp_path: Path) -> None:
    source = f"{ONE_ERA}\nimport time\ntime.sleep(1000)\n"
    assert inside("doctor", "--command", command(tmp_path, source), "--timeout", "1").code == 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--command", "'open"), "--command: ''open' is not a command: No closing quotation. Check the quotes"),
        (("--command", ""), "--command: the command is empty. Pass the command that a client would run"),
        (("tools.py", "--command", "x"), "--command: cannot be used with 'tools.py'. Choose one of them"),
        (("--timeout", "-1"), "--timeout: found -1. Use a number of seconds greater than 0 and at most 3600"),
        (("--timeout", "nan"), "--timeout: found nan. Use a number of seconds"),
        ((), "no file was given, and the current folder has no default file. Pass a file"),
        (("x" * 300,), f"doctor: '{'x' * 300}' is neither a client nor an existing file"),
    ],
)
def test_options_that_cannot_be_used_are_a_usage_error(inside: Inside, options: tuple[str, ...], problem: str) -> None:
    done = inside("doctor", *options)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"mcp-bridge: {problem}"), done.err


def test_a_file_that_is_missing_is_a_finding(inside: Inside) -> None:
    done = inside("doctor", "missing.py")
    assert done.code == 1
    assert "missing.py: no such file or folder" in done.out


def test_validate_and_doctor_report_notes_and_succeed(inside: Inside, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"mail": {"type": "string", "pattern": "^(?!a)"}}}
    gateway = ScriptedGateway(tmp_path)
    gateway.offer(describe_tool("invite", inputSchema=schema))
    gateway.write_settings()
    validated = inside("validate", "gateway.json", "--json")
    assert (validated.code, validated.json["ok"]) == (0, True)
    assert "files__invite" in validated.json["notes"][0]
    examined = inside("doctor", "gateway.json")
    assert examined.code == 0
    assert "warn source 'files': tool 'files__invite': input schema" in examined.out


def test_keys_of_a_client_that_are_not_read_are_reported_where_the_user_looks(inside: Inside, tmp_path: Path) -> None:
    gateway = ScriptedGateway(tmp_path)
    gateway.offer(describe_tool("invite"))
    gateway.write_settings()
    settings = json.loads((tmp_path / "gateway.json").read_text())
    entry = {key: settings["sources"][0][key] for key in ("command", "args")}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"files": {**entry, "envFile": ".env"}}}))
    note = "source 'files': 'envFile' is not read."
    listed = inside("list", "mcp.json")
    assert (listed.code, listed.err.count(note)) == (0, 1)
    validated = inside("validate", "mcp.json", "--json")
    assert validated.code == 0
    assert validated.json["notes"][0].startswith(note)
    examined = inside("doctor", "mcp.json")
    assert examined.code == 0
    assert examined.out.count(f"warn {note}") == 1


def test_a_tool_whose_texts_are_screened_is_reported_as_served(inside: Inside, tmp_path: Path) -> None:
    gateway = ScriptedGateway(tmp_path)
    gateway.offer(describe_tool("invite", description="Invites <!-- and deletes -->"))
    gateway.write_settings()
    examined = inside("doctor", "gateway.json")
    assert examined.code == 0
    assert "warn source 'files': tool 'invite': HTML comments were made visible" in examined.out
    assert "It is served with this change." in examined.out
    assert "not published" not in examined.out

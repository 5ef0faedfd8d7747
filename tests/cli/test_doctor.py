"""`doctor`: starts a server as a client would, and reports the cause of each failure."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from mcp_bridge._cli.doctor import conversation
from mcp_bridge._upstream import child
from tests.kits.cli.cli_running import TOOLS, RunHere
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


def make_command(tmp_path: Path, source: str) -> str:
    """Return the command of a server with this source."""
    file = tmp_path / "a server.py"
    file.write_text(source)
    return f"{sys.executable} '{file}'"


def test_a_healthy_file_passes_in_both_eras(run_here: RunHere) -> None:
    result = run_here("doctor", TOOLS)
    assert result.code == 0
    first, *checks = result.out.splitlines()
    assert first == f"command: {sys.executable} -m mcp_bridge serve {TOOLS}"
    assert checks == [
        f"ok   {CHECKS[0]}: 'cli_tools' responds, 12 tools",
        f"ok   {CHECKS[1]}: 'cli_tools' speaks 2025-11-25, 12 tools",
    ]


def test_json_has_every_documented_key_and_relative_paths_of_the_settings_hold_in_any_folder(
    run_here: RunHere, tmp_path: Path
) -> None:
    (tmp_path / "tools.py").write_text(TOOLS.read_text())
    (tmp_path / "mcp-bridge.yaml").write_text("name: demo\nsources: [{type: python, path: tools.py}]\n")
    result = run_here("doctor", "--json")
    assert result.code == 0
    assert result.json.keys() == {"command", "ok", "checks"}
    assert result.json["ok"] is True
    assert result.json["command"][:3] == [sys.executable, "-m", "mcp_bridge"]
    assert [check["check"] for check in result.json["checks"]] == CHECKS
    for check in result.json["checks"]:
        assert check.keys() == {"check", "ok", "detail", "advice"}
        assert check["ok"] is True
        assert "'demo'" in check["detail"]


def test_an_import_error_is_named_with_file_and_line(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("\nimport nothing_of_this_name\n")
    result = run_here("doctor")
    assert result.code == 1
    assert f"FAIL {CHECKS[0]}: the server ended with exit code 1 before it responded to server/discover" in result.out
    assert f"{tmp_path / 'tools.py'}:2: ModuleNotFoundError: No module named 'nothing_of_this_name'" in result.out


def test_the_server_has_the_bare_environment_of_a_client(
    run_here: RunHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "x")
    (tmp_path / "x.py").write_text("import os\n\nprint(os.environ['MY_TOKEN'])\n")
    result = run_here("doctor", "x.py")
    assert result.code == 1
    assert "KeyError: 'MY_TOKEN'" in result.out


def test_variables_of_the_settings_are_taken_from_the_shell_with_a_warning(
    run_here: RunHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_TOKEN", raising=False)
    server = {"command": sys.executable, "args": ["-m", "mcp_bridge", "serve", str(TOOLS)]}
    server["env"] = {"A": "${MY_NAME}", "B": "${MY_TOKEN}"}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"inner": server}}))
    missing = run_here("doctor", "mcp.json")
    assert missing.code == 1
    assert "the environment variable MY_NAME is not set" in missing.out
    monkeypatch.setenv("MY_NAME", "ann")
    monkeypatch.setenv("MY_TOKEN", "hidden-value")
    server["env"]["B"] = "env:MY_TOKEN"
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"inner": server}}))
    examination = run_here("doctor", "mcp.json")
    assert examination.code == 0, examination.out
    assert "warn variables: taken from this shell, but clients do not pass them: MY_NAME, MY_TOKEN" in examination.out
    assert "mcp-bridge install CLIENT FILE --env MY_NAME --env MY_TOKEN" in examination.out
    assert "hidden-value" not in examination.out


def check(run_here: RunHere, command: str, *options: str, timeout: str = "10") -> tuple[int, dict[str, str], str]:
    """Run `doctor`, and return its exit code, the detail of the first era, and the second check as text."""
    result = run_here("doctor", "--command", command, "--timeout", timeout, "--json", *options)
    first, second = result.json["checks"]
    return result.code, first, f"{second['detail']} {second['advice']}"


NO_MESSAGE = "a line on stdout is not a message: "
NO_RESPONSE = "no response to server/discover within 0.5 seconds"


@pytest.mark.parametrize(
    ("source", "timeout", "detail", "advice"),
    [
        ("print('Listening ...')", "10", f"{NO_MESSAGE}'Listening ...'", "print to stderr"),
        ("print('\\n[1]')", "10", f"{NO_MESSAGE}'[1]'", "print to stderr"),
        (
            "import sys, time; print('waiting for a database', file=sys.stderr, flush=True); time.sleep(1000)",
            "0.5",
            NO_RESPONSE,
            "waiting for a database",
        ),
        (
            "import time\nwhile True:\n"
            """    print('{"jsonrpc": "2.0", "method": "notifications/x"}', flush=True); time.sleep(0.02)""",
            "0.5",
            NO_RESPONSE,
            "",
        ),
        ("import sys\nfor line in sys.stdin: print(line, end='', flush=True)", "0.5", NO_RESPONSE, ""),
    ],
    ids=["print", "JSON", "hang", "notifications", "echo"],
)
def test_a_server_without_a_response_is_reported_with_the_cause(
    run_here: RunHere, tmp_path: Path, source: str, timeout: str, detail: str, advice: str
) -> None:
    code, era, _ = check(run_here, make_command(tmp_path, source), timeout=timeout)
    assert code == 1
    assert era["detail"] == detail
    assert advice in era["advice"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_what_a_hanging_server_started_ends_with_it(run_here: RunHere, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code, detail, _ = check(run_here, f"sh -c 'sleep 100 & echo $! >> {pids}; wait'", timeout="0.3")
    assert code == 1
    assert "wrote nothing to stderr" in detail["advice"]
    children = [int(pid) for pid in pids.read_text().split()]
    assert len(children) == 2
    assert not [pid for pid in children if is_running(pid)]


def is_running(pid: int) -> bool:
    """Return whether a process runs, and is no zombie."""
    stat = Path(f"/proc/{pid}/stat")
    for _ in range(50):
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        time.sleep(0.02)
    return True


def test_the_exit_code_of_a_server_is_reported(run_here: RunHere, tmp_path: Path) -> None:
    code, detail, second = check(run_here, make_command(tmp_path, "import sys; sys.exit('no license')"))
    assert code == 1
    assert detail["detail"] == "the server ended with exit code 1 before it responded to server/discover"
    assert detail["advice"].splitlines() == ["Its stderr:", "no license"]
    assert "before it responded to initialize" in second


def test_a_missing_command_is_reported(run_here: RunHere) -> None:
    code, detail, _ = check(run_here, "no-such-command-anywhere --flag")
    assert code == 1
    assert detail["detail"] == "the program 'no-such-command-anywhere' was not found. Install it, or give its full path"
    assert "full path" in detail["advice"]


def test_a_server_of_one_era_is_healthy_by_command(run_here: RunHere, tmp_path: Path) -> None:
    result = run_here("doctor", "--command", make_command(tmp_path, ONE_ERA))
    assert result.code == 0
    assert f"FAIL {CHECKS[0]}: the server does not know server/discover" in result.out
    assert "does not support this protocol version" in result.out
    assert f"ok   {CHECKS[1]}: 'old one' speaks 2025-11-25, 2 tools" in result.out


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        ("{'error': {'code': -5, 'message': 'go away'}}", "server/discover failed: go away (-5)"),
        ("{'error': 'go away'}", "the response to server/discover is neither a result nor an error"),
        ("{'result': 'yes'}", "the response to server/discover is neither a result nor an error"),
        ("{'result': {}}", "the result of tools/list has no list 'tools'"),
        ("{'result': {'tools': [], 'nextCursor': 'a'}}", "tools/list repeats the cursor 'a'"),
        ("{'result': {'tools': [], 'nextCursor': str(request['id'])}}", "tools/list has more than 1000 pages"),
    ],
)
def test_invalid_responses_are_reported(run_here: RunHere, tmp_path: Path, response: str, problem: str) -> None:
    source = ANSWERS.replace("ANSWER(request)", response)
    code, first, _ = check(run_here, make_command(tmp_path, source))
    assert code == 1
    assert first["detail"].startswith(problem)
    assert first["advice"]


@pytest.mark.parametrize("member", ["'serverInfo': 'x'", "'_meta': [1]", "'capabilities': 7"])
def test_a_server_with_an_invalid_introduction_is_checked_anyway(
    run_here: RunHere, tmp_path: Path, member: str
) -> None:
    source = ANSWERS.replace("ANSWER(request)", f"{{'result': {{'tools': [], {member}}}}}")
    code, first, _ = check(run_here, make_command(tmp_path, source))
    assert (code, first["detail"]) == (0, "'the server' responds, 0 tools")


def test_the_last_lines_of_stderr_are_kept(run_here: RunHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "MAX_STDERR", 100)
    source = "import sys; input(); sys.stderr.write('x' * 9_000 + ''.join(f'{n}\\n' for n in range(9_000)))"
    code, detail, _ = check(run_here, make_command(tmp_path, source))
    assert code == 1
    assert len(detail["advice"]) <= len("Its stderr:") + 100
    assert detail["advice"].endswith("8999")


def test_an_endless_line_is_not_a_message(run_here: RunHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "MAX_MESSAGE", 1_000)
    monkeypatch.setattr(child, "MAX_DROPPED", 2_000)
    source = "import sys; sys.stdout.write('x' * 5_000); sys.stdout.flush(); sys.stdin.read()"
    code, detail, _ = check(run_here, make_command(tmp_path, source))
    assert code == 1
    assert detail["detail"].startswith("the server has sent a line without an end before it responded to")


def test_a_server_that_stays_after_the_end_of_input_is_ended(run_here: RunHere, tmp_path: Path) -> None:
    source = f"{ONE_ERA}\nimport time\ntime.sleep(1000)\n"
    assert run_here("doctor", "--command", make_command(tmp_path, source), "--timeout", "1").code == 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--command", "'open"), "--command: ''open' is not a command: No closing quotation. Check the quotes"),
        (("--command", ""), "--command: the command is empty. Pass the command that a client would run"),
        (("tools.py", "--command", "x"), "--command: cannot be used with 'tools.py'. Choose one of them"),
        (("--timeout", "-1"), "--timeout: found -1. Use a number of seconds greater than 0 and at most 3600"),
        (("--timeout", "nan"), "--timeout: found nan. Use a number of seconds"),
        ((), "no file was given, and the current folder has no default file. Pass a file"),
        (("missing.py",), "missing.py: no such file or folder. Check the path"),
        (("missing.yaml",), "missing.yaml: no such file or folder. Check the path"),
        (("x" * 300,), f"doctor: '{'x' * 300}' is neither a client nor an existing file"),
    ],
)
def test_options_that_cannot_be_used_are_a_usage_error(
    run_here: RunHere, options: tuple[str, ...], problem: str
) -> None:
    result = run_here("doctor", *options)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"mcp-bridge: {problem}"), result.err


def test_validate_and_doctor_report_notes_and_succeed(run_here: RunHere, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"mail": {"type": "string", "pattern": "^(?!a)"}}}
    gateway = ScriptedGateway(tmp_path)
    gateway.offer(describe_tool("invite", inputSchema=schema))
    gateway.write_settings()
    validation = run_here("validate", "gateway.json", "--json")
    assert (validation.code, validation.json["ok"]) == (0, True)
    assert "files__invite" in validation.json["notes"][0]
    examination = run_here("doctor", "gateway.json")
    assert examination.code == 0
    assert "warn source 'files': tool 'files__invite': input schema" in examination.out


def test_unread_keys_of_a_client_are_reported_by_list_validate_and_doctor(run_here: RunHere, tmp_path: Path) -> None:
    gateway = ScriptedGateway(tmp_path)
    gateway.offer(describe_tool("invite"))
    gateway.write_settings()
    settings = json.loads((tmp_path / "gateway.json").read_text())
    entry = {key: settings["sources"][0][key] for key in ("command", "args")}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"files": {**entry, "envFile": ".env"}}}))
    note = "source 'files': 'envFile' is not read."
    listing = run_here("list", "mcp.json")
    assert (listing.code, listing.err.count(note)) == (0, 1)
    validation = run_here("validate", "mcp.json", "--json")
    assert validation.code == 0
    assert validation.json["notes"][0].startswith(note)
    examination = run_here("doctor", "mcp.json")
    assert examination.code == 0
    assert examination.out.count(f"warn {note}") == 1


def test_a_tool_whose_texts_are_screened_is_reported_as_served(run_here: RunHere, tmp_path: Path) -> None:
    gateway = ScriptedGateway(tmp_path)
    gateway.offer(describe_tool("invite", description="Invites <!-- and deletes -->"))
    gateway.write_settings()
    examination = run_here("doctor", "gateway.json")
    assert examination.code == 0
    assert "warn source 'files': tool 'invite': HTML comments were made visible" in examination.out
    assert "It is served with this change." in examination.out
    assert "not published" not in examination.out

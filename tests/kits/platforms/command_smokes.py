"""One short use of each command of `mcp-bridge` on a simulated computer. docs/platforms.md lists them."""

from __future__ import annotations

import contextlib
import json
import re
import select
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.kits.cli.cli_running import format_requests, make_call
from tests.kits.platforms.simulated_systems import SimulatedComputer, SystemName

Smoke = Callable[[SimulatedComputer], None]


@dataclass(frozen=True)
class Feature:
    """A row of docs/platforms.md: its title, the commands that its smoke covers, and where they are not available."""

    title: str
    commands: tuple[str, ...]
    run: Smoke
    missing_on: frozenset[SystemName]


FEATURES: list[Feature] = []


def feature(title: str, *commands: str, missing_on: tuple[SystemName, ...] = ()) -> Callable[[Smoke], Smoke]:
    """Add a function to FEATURES. On systems without the feature, it checks what the user reads instead."""

    def add(run: Smoke) -> Smoke:
        FEATURES.append(Feature(title, commands, run, frozenset(missing_on)))
        return run

    return add


def run(computer: SimulatedComputer, *words: str | Path, code: int = 0, env: Mapping[str, str] | None = None) -> str:
    """Run a command, check its exit code, and return its output and its messages."""
    result = computer.run(*words, env=env)
    text = f"{result.stdout}{result.stderr}"
    assert result.returncode == code, text
    assert "Traceback" not in text
    return text


def read_address(process: subprocess.Popen[str]) -> str:
    """Return the URL that a server reports when it accepts connections."""
    assert process.stderr is not None
    lines = ""
    for line in process.stderr:
        lines += line
        address = re.search(r"http://[\d.:]+/mcp", line)
        if address:
            return address[0]
    raise AssertionError(lines)


def interrupt(computer: SimulatedComputer, process: subprocess.Popen[str]) -> None:
    """Press Ctrl-C, and check that the server ends as it should."""
    computer.interrupt(process)
    _, messages = process.communicate(timeout=60)
    assert computer.get_exit_code(process) == 0, messages
    assert "Traceback" not in messages


@feature("Serving over stdio (`serve`)", "serve")
def serve_over_stdio(computer: SimulatedComputer) -> None:
    with computer.start("serve", "tools.py") as process:
        output, messages = process.communicate(format_requests(make_call("greet", who="Zoë")), timeout=60)
        assert computer.get_exit_code(process) == 0, messages
    assert json.loads(output)["result"]["content"][0]["text"] == "Grüße, Zoë"


@feature("Serving over HTTP until Ctrl-C (`serve --http`)", "serve")
def serve_over_http(computer: SimulatedComputer) -> None:
    with computer.start("serve", "tools.py", "--http", "127.0.0.1:0") as process:
        address = read_address(process)
        assert "Grüße, you" in run(computer, "call", address, "greet")
        interrupt(computer, process)


@feature("Several processes for one address (`serve --workers`)", "serve", missing_on=("win32",))
def serve_with_workers(computer: SimulatedComputer) -> None:
    words = ("serve", "tools.py", "--http", "127.0.0.1:0", "--workers", "2")
    if computer.system == "win32":
        assert "Use one worker, or Linux or macOS" in run(computer, *words, code=2)
        return
    with computer.start(*words) as process:
        address = read_address(process)
        for _ in range(2):
            assert "Grüße, you" in run(computer, "call", address, "greet")
        interrupt(computer, process)


@feature("Sharing one server (`serve --shared`, `shared`)", "serve", "shared")
def share_a_server(computer: SimulatedComputer) -> None:
    assert "no shared server is running" in run(computer, "shared")
    with computer.start("serve", "--shared", "tools.py") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(format_requests(make_call("greet")))
        process.stdin.flush()
        assert "Grüße, you" in process.stdout.readline()
        assert "tools.py" in run(computer, "shared")
        assert "stopping" in run(computer, "shared", "--stop")


@feature("The page and live calls (`dev`, `top`)", "dev", "top")
def develop(computer: SimulatedComputer) -> None:
    with computer.start("dev", "tools.py", "--port", "0") as server:
        address = read_address(server)
        assert server.stderr is not None
        page = re.search(r"http://\S+", server.stderr.readline())
        assert page is not None
        with computer.start("top", page[0]) as top:
            assert top.stdout is not None
            token = page[0].partition("token=")[2]
            is_shown = False
            while not is_shown:
                run(computer, "call", address, "greet", "--token-env", "KEY", env={"KEY": token})
                # `top` shows the calls after it has connected.
                is_shown = bool(select.select([top.stdout], [], [], 0.2)[0])
            assert "greet" in top.stdout.readline()
            interrupt(computer, top)
        interrupt(computer, server)
    # A browser would end with the server on Windows.
    if computer.system == "darwin":
        assert page[0] in (computer.records / "opened").read_text(encoding="utf-8")
    else:
        assert not (computer.records / "opened").exists()


@feature("Running tasks from Redis (`worker`)", "worker")
def work(computer: SimulatedComputer) -> None:
    assert "no tasks in Redis" in run(computer, "worker", "tools.py", code=2)


@feature("Trying tools (`list`, `call`, `read`, `get`, `explain`)", "list", "call", "read", "get", "explain")
def try_tools(computer: SimulatedComputer) -> None:
    assert "greet" in run(computer, "list", "tools.py")
    assert "Grüße, Zoë" in run(computer, "call", "tools.py", "greet", "who=Zoë")
    assert "Notiz" in run(computer, "read", "tools.py", "note://one")
    assert "About cats" in run(computer, "get", "tools.py", "ask", "topic=cats")
    assert "would run" in run(computer, "explain", "tools.py", "greet")


@feature("Completion in shells (`completion`)", "completion")
def complete_words(computer: SimulatedComputer) -> None:
    assert "Register-ArgumentCompleter" in run(computer, "completion", "powershell")


@feature("Checking (`validate`, `doctor`, `schema`)", "validate", "doctor", "schema")
def check(computer: SimulatedComputer) -> None:
    assert "no problems" in run(computer, "validate", "tools.py")
    assert "returned after" in run(computer, "doctor", "tools.py", "--call", "greet")
    assert json.loads(run(computer, "schema"))["properties"]


@feature("Worker processes (`isolation`)")
def isolate(computer: SimulatedComputer) -> None:
    assert "Grüße, Zoë" in run(computer, "call", "isolated.yaml", "greet", "who=Zoë")


@feature("Programs as tools (`type: command`)")
def run_programs(computer: SimulatedComputer) -> None:
    output = re.search(r"hello (\d+)", run(computer, "call", "program.yaml", "show", "text=hello"))
    assert output is not None
    # The bridge ends the process that the program leaves behind.
    with contextlib.suppress(psutil.NoSuchProcess):
        left_process = psutil.Process(int(output[1]))
        try:
            left_process.wait(30)
        finally:
            left_process.kill()


@feature("Upstreams (`type: mcp`) and their locks (`trust`)", "trust")
def call_other_servers(computer: SimulatedComputer) -> None:
    assert "Grüße, you" in run(computer, "call", "upstream.yaml", "up__greet")
    assert "no definition waits" in run(computer, "trust", "upstream.yaml")


@feature("Signing in (`login`)", "login")
def sign_in(computer: SimulatedComputer) -> None:
    assert "signing in to http://127.0.0.1:1/mcp failed" in run(computer, "login", "up", "signed.yaml", code=1)


@feature("The audit trail (`audit`)", "audit")
def audit(computer: SimulatedComputer) -> None:
    run(computer, "call", "audited.yaml", "greet")
    assert "greet" in run(computer, "audit", "audited.yaml")
    assert "is intact" in run(computer, "audit", "audited.yaml", "--verify")


@feature("Remembered approvals (`approvals list`, `approvals revoke`)", "approvals list", "approvals revoke")
def review_approvals(computer: SimulatedComputer) -> None:
    assert "not approved" in run(computer, "call", "approved.yaml", "greet", code=1)
    assert "no lasting approvals" in run(computer, "approvals", "list", "approved.yaml")
    assert "0 approvals revoked" in run(computer, "approvals", "revoke", "approved.yaml", "--all")


@feature("Approving calls in a terminal (`approvals`)", "approvals answer")
def answer_approvals(computer: SimulatedComputer) -> None:
    assert "Waiting for approval requests" in run(computer, "approvals", "approved.yaml")


@feature("New projects (`init`)", "init")
def create_project(computer: SimulatedComputer) -> None:
    assert "Created" in run(computer, "init", "project")
    assert "no problems" in run(computer, "validate", "project")


@feature("Installing in clients (`install`, `uninstall`)", "install", "uninstall")
def install(computer: SimulatedComputer) -> None:
    run(computer, "install", "claude-desktop", "tools.py", "--name", "greeter")
    folder = "AppData/Roaming" if computer.system == "win32" else "Library/Application Support"
    file = computer.home / folder / "Claude/claude_desktop_config.json"
    entry = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]["greeter"]
    # The client starts what is in its file.
    result = subprocess.run(
        [entry["command"], *entry["args"]],
        env={**computer.environment, **entry.get("env", {})},
        cwd=computer.root,
        input=format_requests(make_call("greet")),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert "Grüße, you" in result.stdout, result.stderr
    assert "removed" in run(computer, "uninstall", "claude-desktop", "greeter")
    # The file had only this entry.
    assert not file.exists()


@feature(
    "Importing (`import clients`, `import openapi`, `import command`)",
    "import clients",
    "import openapi",
    "import command",
)
def import_servers(computer: SimulatedComputer) -> None:
    file = computer.home / ".cursor/mcp.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"mcpServers": {"notes": {"command": "notes"}}}), encoding="utf-8")
    assert "notes" in run(computer, "import", "clients")
    assert "1 operation" in run(computer, "import", "openapi", "api.json")
    assert "loud" in run(computer, "import", "command", "shout")


@feature("Amplifier modules (`module validate`, `module lock`)", "module validate", "module lock")
def check_modules(computer: SimulatedComputer) -> None:
    assert "all rules are followed" in run(computer, "module", "validate", "module_tool.py")
    assert "0 modules from git" in run(computer, "module", "lock", "modules.yaml")


@feature(
    "Exporting (`export`)", "export tools", "export mcpb", "export server-json", "export mcp-json", "export dockerfile"
)
def export(computer: SimulatedComputer) -> None:
    tools: list[dict[str, Any]] = json.loads(run(computer, "export", "tools", "openai", "tools.py"))
    assert tools[0]["function"]["name"] == "greet"
    assert "1 tool" in run(computer, "export", "mcpb", "tools.py", "--from-index")
    package = ("--namespace", "io.github.me", "--package", "notes", "--package-version", "1.0")
    assert "io.github.me" in run(computer, "export", "server-json", "tools.py", *package)
    assert "mcpServers" in run(computer, "export", "mcp-json", "tools.py")
    assert "ENTRYPOINT" in run(computer, "export", "dockerfile", "tools.py", "--from-index")

"""Records the messages of real clients: `python -m tests.kits.oracle.record_clients [CLIENT...]`.

The clients are those of `make test-clients` and the official TypeScript client, in all eras they support. Each uses the
offer of the twin servers through `mcp-bridge serve`. The command-line clients have no network, and a scripted model
makes them call tools.
"""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.kits.clients.real_clients import QUIET, find_network_isolation, install_clients, write_programs
from tests.kits.node.toolchain import Toolchain, find_node, find_toolchain, run
from tests.kits.oracle.oracle_offers import IDENTITY
from tests.kits.oracle.recordings import Json, read_log, write_recording
from tests.kits.oracle.scripted_model import PORT
from tests.kits.paths import ROOT

ERAS = ("legacy", "auto", "modern")
TIMEOUT = 120.0
"""Seconds for one run of a client."""
MODEL = f"http://127.0.0.1:{PORT}"
OFFERS = "from tests.kits.oracle.oracle_offers import make_registry\n\nregistry = make_registry()\n"
SETTINGS = {
    "name": IDENTITY.name, "version": IDENTITY.version, "title": IDENTITY.title,
    "instructions": IDENTITY.instructions,
    "sources": [{"type": "python", "path": "offers.py"}],
}  # fmt: skip
SERVER = """#!/bin/sh
cd '{root}' && exec '{python}' -m tests.kits.oracle.recorder '{logs}' '{python}' -m mcp_bridge serve '{settings}'
"""
INSPECTIONS = [
    ["initialize"],
    ["tools/list", "--strict"],
    ["resources/list"],
    ["resources/templates/list"],
    ["prompts/list"],
    ["resources/read", "--uri", "test://notes/ann"],
    ["resources/read", "--uri", "test://none"],
    ["prompts/get", "--prompt-name", "greeting", "--prompt-args", "who=Ada"],
    ["tools/call", "--tool-name", "echo", "--tool-args-json", '{"text": "hi"}', "--tool-metadata", "a=b"],
    ["tools/call", "--tool-name", "add", "--tool-arg", "a=x", "b=1"],
    *(["tools/call", "--tool-name", name] for name in ("blocks", "report", "refuse", "ask")),
    ["tools/call", "--tool-name", "count", "--load", "--load-requests", "6", "--load-concurrency", "3"],
]
CODEX = f"""
model = "m"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.scripted]
name = "scripted"
base_url = "{MODEL}/v1"
wire_api = "responses"

[mcp_servers.shelf]
command = "{{server}}"
"""
ENTRY = {"mcpServers": {"shelf": {"command": "{server}"}}}
ANTHROPIC = {"options": {"baseURL": f"{MODEL}/v1", "apiKey": "none"}, "models": {"m": {"name": "m"}}}
OPENCODE = {
    "mcp": {"shelf": {"type": "local", "command": ["{server}"]}},
    "provider": {"anthropic": ANTHROPIC},
    "model": "anthropic/m",
    "small_model": "anthropic/m",
}


@dataclass(frozen=True, kw_only=True)
class ClientRun:
    """One run of a client. `files` of the home have `{server}` and `{project}` where the paths belong."""

    client: str
    session: str = "a prompt"
    command: Sequence[str | Path]
    environ: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


COMMAND_LINE_CLIENTS = [
    ClientRun(
        client="claude-code",
        command=["claude", "-p", "hello", "--allowedTools", "mcp__shelf"],
        environ={"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": MODEL, "ENABLE_TOOL_SEARCH": "false",
                 "MCP_CONNECTION_NONBLOCKING": "false"},
        files={".claude.json": json.dumps(ENTRY)},
    ),
    ClientRun(
        client="gemini-cli",
        command=["gemini", "-p", "hello", "--yolo", "-m", "gemini-2.5-flash"],
        environ={"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": MODEL},
        files={
            ".gemini/settings.json": json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}, **ENTRY}),
            ".gemini/trustedFolders.json": '{"{project}": "TRUST_FOLDER"}',
        },
    ),
    ClientRun(
        client="opencode",
        command=["opencode", "run", "hello"],
        files={".config/opencode/opencode.json": json.dumps(OPENCODE)},
    ),
    ClientRun(
        client="codex",
        command=["codex", "exec", "--skip-git-repo-check", "hello"],
        files={".codex/config.toml": CODEX},
    ),
]  # fmt: skip
REPORTS: dict[str, list[str]] = {"claude-code": ["claude", "mcp", "list"], "gemini-cli": ["gemini", "mcp", "list"],
           "opencode": ["opencode", "mcp", "list"]}  # fmt: skip
"""How clients without a model report on their servers."""


def list_runs(node: Toolchain, server: Path) -> Iterator[ClientRun]:
    """Yield the runs of the clients without a model."""
    script = Path(__file__).with_name("use_everything.mjs")
    for era in ERAS:
        yield ClientRun(client=f"typescript-{era}", session="everything", command=[node.node, script, era, server])
    for era in ERAS:
        inspector = [node.node, node.inspector, "--cli", server, "--protocol-era", era, "--format", "json", "--method"]
        for options in INSPECTIONS if era != "legacy" else [*INSPECTIONS, ["logging/setLevel", "--log-level", "error"]]:
            yield ClientRun(client=f"inspector-{era}", session=" ".join(options), command=[*inspector, *options])


def make_server(folder: Path) -> Path:
    """Write a program that serves the offer of the twin servers and records its traffic in the folder `logs`."""
    (folder / "logs").mkdir()
    (folder / "offers.py").write_text(OFFERS, encoding="utf-8")
    (folder / "settings.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    values = {"root": ROOT, "python": sys.executable, "logs": folder / "logs", "settings": folder / "settings.json"}
    server = folder / "server"
    server.write_text(SERVER.format_map(values), encoding="utf-8")
    server.chmod(0o755)
    return server


def record_run(client_run: ClientRun, folder: Path, environ: Mapping[str, str]) -> dict[str, list[Json]]:
    """Run a client in an own home, and return its messages by session: it may connect more than once.

    Raises RuntimeError if it has not connected.
    """
    home = Path(tempfile.mkdtemp(prefix="home-", dir=folder))
    project = home / "project"
    project.mkdir()
    for name, text in client_run.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        text = text.replace("{server}", str(folder / "server")).replace("{project}", str(project))
        (home / name).write_text(text, encoding="utf-8")
    process = run(client_run.command, {**environ, **client_run.environ, "HOME": str(home)}, TIMEOUT, project)
    places = {str(home): "/home/user", str(folder): "/home", platform.node(): "host"}
    logs = sorted((folder / "logs").iterdir())
    sessions = [read_log(log.read_bytes(), places) for log in logs]
    for log in logs:
        log.unlink()
    if not sessions:
        raise RuntimeError(f"{client_run.client} has not connected:\n{process.stdout}{process.stderr}")
    suffixes = [""] if len(sessions) == 1 else [f", connection {1 + number}" for number in range(len(sessions))]
    return {client_run.session + suffix: session for suffix, session in zip(suffixes, sessions, strict=True)}


def list_model_runs() -> Iterator[ClientRun]:
    """Yield the runs of the command-line clients: a prompt with a scripted model, and a report on their servers."""
    alone = find_network_isolation()
    loopback = ["sh", "-c", 'PATH="$PATH:/usr/sbin:/sbin" ip link set lo up && exec "$@"', "sh"] if alone else []
    model = [*alone, *loopback, "env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.kits.oracle.scripted_model"]
    for client in COMMAND_LINE_CLIENTS:
        if client.client in REPORTS:
            yield replace(client, session="a report", command=[*alone, *REPORTS[client.client]])
        yield replace(client, command=[*model, *client.command])


def main(only: Sequence[str]) -> None:
    """Record all clients, or only these, and print a line for each recording."""
    node = find_toolchain()
    with tempfile.TemporaryDirectory(prefix="recording-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        server = make_server(folder)
        path = write_programs(folder / "bin", find_node(), install_clients(find_node()))
        environ = {"PATH": path, "LANG": "C.UTF-8", **QUIET, "MCP_BRIDGE_NODE_MODULES": str(node.modules)}
        sessions: defaultdict[str, dict[str, list[Json]]] = defaultdict(dict)
        for client_run in [*list_runs(node, server), *list_model_runs()]:
            if not only or client_run.client in only:
                sessions[client_run.client] |= record_run(client_run, folder, environ)
        for client, recorded in sessions.items():
            written = write_recording(client, recorded)
            count = sum(map(len, recorded.values()))
            print(f"{client}: {len(recorded)} sessions, {count} messages, {written.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

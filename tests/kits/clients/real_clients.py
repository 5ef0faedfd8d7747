"""Real clients from npm: `mcp-bridge install` adds the bridge to each, and `uninstall` removes it.

Run it with `make test-clients`. It is not a part of the tests, because it downloads 1.5 GB from npm once. Each trial
has a separate home, and its client has no network. The program prints a line for each trial, and ends with 1 if the
report of a client about its servers is not the expected one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kits.clients.real_trials import TRIALS, USE, Trial
from tests.kits.constants import TIMEOUT
from tests.kits.node.toolchain import RegistryUnreachable, ToolchainUnavailable, find_node, install

HERE = Path(__file__).resolve().parent
BRIDGE = Path(sys.executable).with_name("mcp-bridge")
DOWNLOAD = 1800.0
"""Seconds for the packages of all clients. A fast network needs one minute for these 1.5 GB."""
TRIES = 3
"""How often the report of a client and the installation with npm are tried."""
TOOLS = '''
from mcp_bridge import tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(annotations={"readOnlyHint": True})
def shelves() -> list[str]:
    """Name all shelves."""
    return ["top", "bottom"]
'''
PACKAGES = {
    "claude-code": "@anthropic-ai/claude-code",
    "gemini-cli": "@google/gemini-cli",
    "qwen-code": "@qwen-code/qwen-code",
    "copilot-cli": "@github/copilot",
    "opencode": "opencode-linux-x64",
    "codex": "@openai/codex",
    "inspector": "@modelcontextprotocol/inspector",
}
PROGRAMS = {
    "claude": "@anthropic-ai/claude-code-*/claude",
    "gemini": "@google/gemini-cli/bundle/gemini.js",
    "qwen": "@qwen-code/qwen-code/cli-entry.js",
    "copilot": "@github/copilot-*/copilot",
    "opencode": "opencode-linux-x64/bin/opencode",
    "codex": "@openai/codex/bin/codex.js",
    "mcp-inspector": "@modelcontextprotocol/inspector/clients/launcher/build/index.js",
}
"""The programs below node_modules. A pattern can match the packages of several platforms; the first one that runs here
is used.
"""
QUIET = {"NO_COLOR": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1", "MCP_INSPECTOR_SECRET_STORE": "memory"}
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class TrialError(Exception):
    """A client has an unexpected report, or a bridge command fails. The message contains the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialHome:
    """The home and project of one trial, with its processes."""

    home: Path
    project: Path
    path: str
    isolation_prefix: Sequence[str]
    """The beginning of a command that runs without network access."""
    behind_gateway: bool = False
    """Whether the client's bridge is a gateway in front of the bridge with the tools."""

    def write_tools(self) -> Path:
        """Write the tools; return the file to install."""
        tools, settings = self.project / "tools.py", self.project / "gateway.json"
        tools.write_text(TOOLS, encoding="utf-8")
        if not self.behind_gateway:
            return tools
        server = {"command": str(BRIDGE), "args": ["serve", str(tools)], "prefix": ""}
        settings.write_text(json.dumps({"mcpServers": {"tools": server}}))
        return settings

    def run(self, *words: str | Path, prefix: Sequence[str] = ()) -> tuple[int, str]:
        """Run a process of this trial, and return its exit code and all output."""
        environment = {"HOME": str(self.home), "PATH": self.path, "LANG": "C.UTF-8", **QUIET}
        try:
            process = subprocess.run(
                [*prefix, *words],
                cwd=self.project,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired as late:
            raise TrialError(f"{words[0]} has not ended within {TIMEOUT:.0f} s") from late
        return process.returncode, ANSI.sub("", process.stdout)

    def run_bridge(self, *words: str | Path) -> str:
        """Return the output of a bridge command. Raises TrialError if it fails."""
        code, output = self.run(BRIDGE, *words)
        if code:
            raise TrialError(f"mcp-bridge {' '.join(map(str, words))} ended with {code}:\n{output}")
        return output

    def get_report(self, trial: Trial) -> str:
        """Return the client's report about its servers."""
        words = [word.replace("{project}", str(self.project)) for word in trial.report_command]
        if trial.has_model:
            words = [sys.executable, str(HERE / "model_endpoint.py"), *words]
        _, output = self.run(*words, prefix=self.isolation_prefix)
        return output

    def write_file(self, path: str, text: str) -> None:
        """Write a file into the home."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.replace("{project}", str(self.project)).encode())


def run_trial(trial: Trial, trial_home: TrialHome) -> tuple[float, float]:
    """Install, check and uninstall the bridge.

    Return the seconds until the client's report, and until the bridge's first response. Raises TrialError.
    """
    for path, text in trial.other_files.items():
        trial_home.write_file(path, text)
    if trial.file:
        trial_home.write_file(trial.file, trial.content)
        # Compare the restored file before the client runs, because some clients change it in each run.
        install_bridge(trial, trial_home)
        uninstall_bridge(trial, trial_home)
        if (trial_home.home / trial.file).read_bytes() != trial.content.encode():
            raise TrialError(f"{trial.file} is not as it was:\n{(trial_home.home / trial.file).read_text()}")
    install_bridge(trial, trial_home)
    took = wait_for_report(trial, trial_home)
    first = measure_first_response(trial, trial_home)
    uninstall_bridge(trial, trial_home)
    report = trial_home.get_report(trial)
    if not re.search(trial.pattern_without, report) or re.search(trial.pattern_with, report):
        raise TrialError(f"after the uninstall {trial.client} reports:\n{report}")
    return took, first


def wait_for_report(trial: Trial, trial_home: TrialHome) -> float:
    """Return the seconds until the client reports the bridge. Raises TrialError if it does not."""
    for tries in range(TRIES):
        if tries and trial.longer_timeout is not None:
            lengthen_timeout(*trial.longer_timeout, trial_home)
        began = time.monotonic()
        report = trial_home.get_report(trial)
        took = time.monotonic() - began
        if re.search(trial.pattern_with, report):
            return took
    raise TrialError(f"after the install {trial.client} reports:\n{report}")


def lengthen_timeout(path: str, setting: str, trial_home: TrialHome) -> None:
    """Set a longer timeout in the client's settings, as a user with a busy machine would.

    The entry `"shelf": {...}` becomes `"shelf": {"timeout": 60000, ...}`, where `setting` is `"timeout": 60000, `.
    """
    text = (trial_home.home / path).read_text(encoding="utf-8")
    if setting not in text:
        trial_home.write_file(path, re.sub(r'("shelf":\s*\{)', rf"\1{setting}", text))


def install_bridge(trial: Trial, trial_home: TrialHome) -> None:
    """Install the bridge. Raises TrialError."""
    client, *options = trial.install_arguments
    trial_home.run_bridge("install", client, trial_home.write_tools(), "--name", "shelf", *options)


def uninstall_bridge(trial: Trial, trial_home: TrialHome) -> None:
    """Uninstall the bridge. Raises TrialError."""
    client, *options = trial.install_arguments
    trial_home.run_bridge("uninstall", client, "shelf", *options)


def measure_first_response(trial: Trial, trial_home: TrialHome) -> float:
    """Return the seconds until the bridge's first response, as `doctor` measures them.

    Raises TrialError if doctor reports a problem.
    """
    client, *options = trial.install_arguments
    code, output = trial_home.run(BRIDGE, "doctor", client, "--json", *(word for word in options if word != USE))
    if code:
        raise TrialError(f"doctor reports:\n{output}")
    # On a busy machine, lines about waiting precede the JSON.
    printed = output[output.index("{") :]
    first: float = json.loads(printed)["servers"][0]["first_answer"]
    return first


def write_programs(folder: Path, node: Path, modules: Path) -> str:
    """Write a script for each client, which runs it with this Node, and return a PATH with these scripts."""
    folder.mkdir()
    for name, pattern in PROGRAMS.items():
        program = next((path for path in sorted(modules.glob(pattern)) if can_run(path)), None)
        if program is None:
            continue
        run = f'"{node}" "{program}"' if program.suffix == ".js" else f'"{program}"'
        (folder / name).write_text(f'#!/bin/sh\nexec {run} "$@"\n', encoding="utf-8")
        (folder / name).chmod(0o755)
    return os.pathsep.join([str(folder), str(node.parent), "/usr/bin", "/bin"])


def can_run(program: Path) -> bool:
    """Whether a program can run here. A client may have binaries for several platforms."""
    if program.suffix == ".js":
        return True
    try:
        process = subprocess.run([program, "--version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT)
    except OSError:
        return False
    return process.returncode == 0


def install_clients(node: Path) -> Path:
    """Return the node_modules folder of the clients. Raises ToolchainUnavailable.

    A second attempt continues where npm was interrupted.
    """
    for _ in range(TRIES - 1):
        try:
            return install(node, HERE, DOWNLOAD)
        except RegistryUnreachable as reason:
            print(f"once more: {reason}", flush=True)
    return install(node, HERE, DOWNLOAD)


def find_network_isolation() -> Sequence[str]:
    """Return the prefix of a command without network access. If that is impossible, print it and return nothing."""
    words = ("unshare", "--map-root-user", "--net")
    if shutil.which("unshare") and subprocess.run([*words, "true"], capture_output=True).returncode == 0:
        return words
    print("THE NETWORK CANNOT BE TAKEN AWAY HERE: the clients run with it", flush=True)
    return ()


def print_row(*cells: Any) -> None:
    """Print a line of the table."""
    print("  ".join(f"{cell!s:<{width}}" for cell, width in zip(cells, (11, 9, 32, 6, 9, 9), strict=True)), flush=True)


def main(only: Sequence[str]) -> int:
    """Run all trials, or those of `only` these clients. Return 1 if one fails.

    With `--gateway`, the clients reach the tools through a gateway.
    """
    behind_gateway, only = "--gateway" in only, [name for name in only if name != "--gateway"]
    if unknown := [name for name in only if name not in PACKAGES]:
        print(f"no such client: {', '.join(unknown)}. There are: {', '.join(PACKAGES)}", flush=True)
        return 2
    try:
        node = find_node()
        modules = install_clients(node)
    except ToolchainUnavailable as missing:
        print(f"THE REAL CLIENTS WERE NOT TESTED: {missing}", flush=True)
        return 1 if os.environ.get("CI") else 0
    except RuntimeError as error:
        print(f"THE REAL CLIENTS WERE NOT TESTED: {error}", flush=True)
        return 1
    isolation_prefix = find_network_isolation()
    failures: list[str] = []
    print_row("client", "version", "installed by", "result", "report s", "bridge s")
    with tempfile.TemporaryDirectory(prefix="real clients ") as folder:
        path = write_programs(Path(folder, "bin"), node, modules)
        for number, trial in enumerate(trial for trial in TRIALS if not only or trial.client in only):
            trial_home = TrialHome(
                home=Path(folder, f"home {number}"),
                project=Path(folder, f"my {number}"),
                path=path,
                isolation_prefix=isolation_prefix,
                behind_gateway=behind_gateway,
            )
            trial_home.home.mkdir()
            trial_home.project.mkdir()
            way = " ".join(trial.install_arguments[1:]) or "an edit"
            if not Path(folder, "bin", trial.report_command[0]).exists():
                failures += [f"{trial.client}: not for this machine"] if os.environ.get("CI") else []
                print_row(trial.client, "", way, "NOT TESTED: npm has none for this machine", "", "")
                continue
            version = json.loads((modules / PACKAGES[trial.client] / "package.json").read_text())["version"]
            try:
                took, first = run_trial(trial, trial_home)
            except TrialError as failed:
                failures.append(f"{trial.client} ({way}): {failed}")
                print_row(trial.client, version, way, "FAIL", "", "")
            else:
                print_row(trial.client, version, way, "ok", f"{took:.2f}", f"{first:.2f}")
    for failure in failures:
        print(f"\n{failure}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

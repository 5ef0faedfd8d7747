"""A user's machine in a folder, for tests of `install` and the other commands that edit the files of MCP clients."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import typer

from mcp_bridge._cli.app import app
from mcp_bridge._cli.exits import report_errors

GOLDEN = Path(__file__).parent / "golden"
COMMAND = Path(sys.executable).parent / "mcp-bridge"
TOOLS = '''
from mcp_bridge import tool


@tool
def shout(text: str) -> str:
    """Text in capitals."""
    return text.upper()
'''

FILES = {
    "claude-desktop": ("user", "~/.config/Claude/claude_desktop_config.json"),
    "claude-code": ("user", "~/.claude.json"),
    "claude-code-project": ("project", ".mcp.json"),
    "claude-code-local": ("local", "~/.claude.json"),
    "vscode": ("user", "~/.config/Code/User/mcp.json"),
    "vscode-project": ("project", ".vscode/mcp.json"),
    "cursor": ("user", "~/.cursor/mcp.json"),
    "cursor-project": ("project", ".cursor/mcp.json"),
    "windsurf": ("user", "~/.codeium/windsurf/mcp_config.json"),
    "zed": ("user", "~/.config/zed/settings.json"),
    "zed-project": ("project", ".zed/settings.json"),
    "codex": ("user", "~/.codex/config.toml"),
    "codex-project": ("project", ".codex/config.toml"),
    "gemini-cli": ("user", "~/.gemini/settings.json"),
    "gemini-cli-project": ("project", ".gemini/settings.json"),
    "goose": ("user", "~/.config/goose/config.yaml"),
    "opencode": ("user", "~/.config/opencode/opencode.json"),
    "opencode-project": ("project", "opencode.json"),
    "copilot-cli": ("user", "~/.copilot/mcp-config.json"),
    "copilot-cli-project": ("project", ".github/mcp.json"),
    "lm-studio": ("user", "~/.lmstudio/mcp.json"),
    "cline": ("user", "~/.cline/data/settings/cline_mcp_settings.json"),
    "continue": ("user", "~/.continue/config.yaml"),
    "visual-studio": ("user", "~/.mcp.json"),
    "visual-studio-project": ("project", ".mcp.json"),
    "kiro": ("user", "~/.kiro/settings/mcp.json"),
    "kiro-project": ("project", ".kiro/settings/mcp.json"),
    "antigravity": ("user", "~/.gemini/config/mcp_config.json"),
    "antigravity-project": ("project", ".agents/mcp_config.json"),
    "junie": ("user", "~/.junie/mcp/mcp.json"),
    "junie-project": ("project", ".junie/mcp/mcp.json"),
    "qwen-code": ("user", "~/.qwen/settings.json"),
    "qwen-code-project": ("project", ".qwen/settings.json"),
    "amp": ("user", "~/.config/amp/settings.json"),
    "amp-project": ("project", ".amp/settings.json"),
    "warp": ("user", "~/.warp/.mcp.json"),
    "warp-project": ("project", ".warp/.mcp.json"),
    "librechat-project": ("project", "librechat.yaml"),
    "roo-code": (
        "user",
        "~/.config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
    ),
    "roo-code-project": ("project", ".roo/mcp.json"),
    "kilo-code": ("user", "~/.config/kilo/kilo.jsonc"),
    "kilo-code-project": ("project", ".kilo/kilo.jsonc"),
}
"""The scope and the path, on Linux, of the file in each case. A case is a folder in `golden`: a client and a scope."""


@dataclass(frozen=True, kw_only=True)
class ClientHome:
    """A home, a project as the working directory, and further environment variables."""

    home: Path
    project: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> Path:
        return self.project / "shelf.yaml"

    @property
    def bin(self) -> Path:
        return self.home / "bin"

    @property
    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": f"{self.bin}:/usr/bin:/bin", **self.environ}

    def run(self, *words: str | Path, check: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run the command in this process, because hundreds of processes would take minutes.

        For the same reason, `install` with a client checks the server only with `--check`.
        """
        out, err, code = io.StringIO(), io.StringIO(), 0
        args = [str(word) for word in words]
        has_client = any(not word.startswith("-") for word in args[1:])
        if args[0] == "install" and has_client and "--check" not in args:
            args.insert(1, "--no-check")
        with (
            mock.patch.dict(os.environ, self.environment, clear=True),
            contextlib.chdir(self.project),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                with report_errors():
                    _commands()(args)
            except SystemExit as end:
                code = int(end.code or 0)
        return require_exit_code(subprocess.CompletedProcess(args, code, out.getvalue(), err.getvalue()), check)

    def run_in_new_process(self, *words: str | Path, check: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run the command in a separate process."""
        variables = {key: value for key, value in os.environ.items() if "COV" in key}
        process = subprocess.run(
            [sys.executable, "-m", "mcp_bridge", *map(str, words)],
            cwd=self.project,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert "Traceback" not in process.stderr, process.stderr
        return require_exit_code(process, check)

    def json(self, *words: str | Path, check: int | None = 0) -> Any:
        return json.loads(self.run(*words, "--json", check=check).stdout)

    def path(self, case: str) -> Path:
        """Return the path of the client's file in a case."""
        where = FILES[case][1]
        return self.home / where[2:] if where.startswith("~/") else self.project / where

    def write_file(self, case: str, content: bytes) -> Path:
        path = self.path(case)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def write_program(self, name: str, body: str) -> Path:
        """Write a program in Python to a folder on the PATH."""
        self.bin.mkdir(exist_ok=True)
        path = self.bin / name
        path.write_text(f"#!{sys.executable}\n{body}", encoding="utf-8")
        path.chmod(0o755)
        return path

    def files(self) -> Iterator[Path]:
        """Yield the files in home and project, except the command's own state."""
        for root in (self.home, self.project):
            yield from (path for path in sorted(root.rglob("*")) if ".local" not in path.parts)


@functools.cache
def _commands() -> Callable[[list[str]], Any]:
    """Return the commands. Building them takes four times as long as running most of them, so do it once."""
    return typer.main.get_command(app)


def require_exit_code(process: subprocess.CompletedProcess[str], code: int | None) -> subprocess.CompletedProcess[str]:
    assert code is None or process.returncode == code, process.stdout + process.stderr
    return process


def make_home(folder: Path, **environ: str) -> ClientHome:
    """Create a user with a project, settings and a tool."""
    home = ClientHome(home=folder / "home", project=folder / "project", environ=environ)
    home.home.mkdir()
    home.project.mkdir()
    (home.project / "tools.py").write_text(TOOLS, encoding="utf-8")
    home.settings.write_text("name: shelf\nsources:\n  - {type: python, path: tools.py}\n", encoding="utf-8")
    return home


def split_case(case: str) -> tuple[str, str]:
    """Return the client and the scope of a case."""
    scope = FILES[case][0]
    return case.removesuffix(f"-{scope}"), scope


def read_golden_file(case: str, which: str, who: ClientHome) -> bytes:
    """Return the file of a client `before` or `after` the installation, with this machine's paths in it."""
    (path,) = (GOLDEN / case).glob(f"{which}.*")
    text = path.read_bytes().decode()
    for name, value in (("COMMAND", COMMAND), ("SETTINGS", who.settings), ("FOLDER", who.project)):
        text = text.replace(f"{{{name}}}", str(value))
    return text.encode()

"""Git repositories with Amplifier modules, and settings with plans that name them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._integrations.amplifier.source.git import parse_address
from mcp_bridge._integrations.amplifier.source.lock_file import LockFile, LockOutcome, ModuleLocker, RequestedModule
from mcp_bridge._settings import load
from tests.kits.amplifier.amplifier_modules import write_files

GIT = shutil.which("git") or "git"
FIXED_TEXT_MODULE = """
class Says:
    name, description = "{name}", "Says one thing."

    async def execute(self, input):
        return "{text}"


async def mount(coordinator, config):
    await coordinator.mount("tools", Says())
"""
"""A module with a tool that returns a fixed text."""


def build_module(name: str, text: str) -> str:
    """Return a module with a tool of this name and this result."""
    return FIXED_TEXT_MODULE.format(name=name, text=text)


class Repository:
    """A bare repository, and a clone of it to work in."""

    def __init__(self, folder: Path, name: str = "modules") -> None:
        self.bare, self.work = folder / f"{name}.git", folder / f"{name}.work"
        self.git("init", "-q", "--bare", "-b", "main", str(self.bare), folder=folder)
        self.git("init", "-q", "-b", "main", str(self.work), folder=folder)

    @property
    def url(self) -> str:
        """The file URL of the repository."""
        return self.bare.as_uri()

    @property
    def uri(self) -> str:
        """The address of its default branch, as plans have it."""
        return f"git+{self.url}"

    def git(self, *args: str, folder: Path | None = None) -> str:
        """Run git in the clone, without settings of users; return its output."""
        environ = {
            **os.environ,
            **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"), "me"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        process = subprocess.run([GIT, *args], cwd=folder or self.work, env=environ, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
        return process.stdout.strip()

    def commit(self, files: Mapping[str, str], *, branch: str = "main") -> str:
        """Add or change these files, commit and push them; return the commit."""
        write_files(self.work, files)
        self.git("add", "--all", "--force")
        self.git("commit", "-q", "--allow-empty", "-m", "more")
        self.push(f"HEAD:refs/heads/{branch}")
        return self.git("rev-parse", "HEAD")

    def push(self, *refs: str) -> None:
        """Push these refs, with force."""
        self.git("push", "-q", "--force", str(self.bare), *refs)


class PlanFolder:
    """A folder with settings. Their only plan has a tool for each of `modules`, which maps names to sources."""

    def __init__(self, folder: Path, modules: Mapping[str, str], *, git: Sequence[str] = ("*",)) -> None:
        self.folder = folder
        self.modules_folder = folder / "kept"
        rows = "".join(f"\n        - {{module: {module}, source: '{source}'}}" for module, source in modules.items())
        text = (
            f"sources:\n  - type: amplifier\n    git: {list(git)}\n    modules: kept\n    plan:\n      tools:{rows}\n"
        )
        self.file = write_files(folder, {"mine.yaml": text}) / "mine.yaml"
        self._uris = list(modules.values())

    @property
    def lock(self) -> LockFile:
        """The lock file as it is now."""
        return LockFile.read(self.folder)

    def lock_modules(self, *, update: bool = False) -> LockOutcome:
        """Lock the modules of the plan."""
        requests = [RequestedModule(parse_address(uri), self.modules_folder) for uri in self._uris]
        return ModuleLocker(self.lock, update=update, report=lambda text: None).lock(requests)

    def files(self, uri: str) -> Path:
        """Return the folder with the files of a locked module."""
        (folder,) = self.modules_folder.glob(f"*/{self.lock.modules[uri].commit}/files")
        return folder

    def build_bridge(self) -> Any:
        """Build the bridge of the settings."""
        return build_from_settings(load(self.file, dict(os.environ)))

"""The repositories and commits of the public modules, and settings files with plans of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PINS = {
    "tool-bash": ("microsoft", "d8cc410d7a70842c17581aa4fd42a06ec7fac8c1"),
    "tool-filesystem": ("microsoft", "355fa417ca37ea6475a2d7a4aea6ff037f800eea"),
    "tool-todo": ("microsoft", "483c5a878bbbe2d6fd33ab81a54c9bd6a28be4a9"),
    "hooks-approval": ("microsoft", "4ee093eafd2d60ab10692a22363e86c7b25d02ce"),
    "hooks-redaction": ("microsoft", "ead35f44f076eab5ee2d81a8569ec2db0ac7519b"),
    "hook-shell": ("microsoft", "f9ebb16a547461138e5d4b1549aee03bc6841e23"),
    "hooks-logging": ("anokye-labs", "0d7766cee5a4d8aee56f1ebbaf32b23f70f89bc6"),
}
"""Tools and hooks by name, with the owner of their repository and the commit."""
AGENT_PINS = {
    "loop-basic": ("microsoft", "937a53fadf8b1562a4383efbe56b9591f6e7b0e9"),
    "loop-streaming": ("microsoft", "e5438b4c99977b6dd8b01962fd9ab33b92d93aa7"),
    "provider-mock": ("microsoft", "934d3f141e2b4de3d4157c6f344039c8bff75acc"),
    "provider-anthropic": ("gszep", "199d725df3e02fb5d4e6a70c34fe33d2d7f3f059"),
    "provider-openai": ("microsoft", "ec5f9c9c96110b690505b2cee8bc4e0fda6b1ed3"),
    "context-simple": ("colombod", "54ca117e925cb4607e37f0618a56502430c8b070"),
    "tool-task": ("microsoft", "54013225036717ff64b175691ab7721268e5c7a5"),
}
"""Modules of agents."""
FOUNDATION = ("microsoft", "amplifier-foundation", "d0d96f70afc89a3dfbc14e4610a74d21d5764725")
"""A package that tool-task imports and does not declare: its owner, its repository, and the commit."""


@dataclass(frozen=True)
class Repositories:
    """Where the modules come from: GitHub, or `clones`. `folder` is for the written files."""

    folder: Path
    clones: Path | None

    def find_address(self, name: str) -> str:
        """Return the source of a module for a plan."""
        owner, commit = {**PINS, **AGENT_PINS}[name]
        return f"git+{self._find_url(owner, f'amplifier-module-{name}')}@{commit}"

    def write_plan(self, name: str, plan: Mapping[str, Any], **source: Any) -> Path:
        """Write a settings file in a new folder, with a lock file for all modules; return its path."""
        path = self.folder / name / "bridge.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        settings = {"type": "amplifier", "git": ["git+*"], "modules": str(self.folder / "modules"), "plan": plan}
        path.write_text(json.dumps({"sources": [{**settings, **source}]}))
        lock = self.folder / "amplifier.lock.json"
        if lock.exists():
            shutil.copy(lock, path.parent)
        return path

    def lock_all(self) -> None:
        """Fetch every module once, and write the common lock file of all plans."""
        names = [*PINS, *AGENT_PINS]
        tools = [{"module": name, "source": self.find_address(name)} for name in names]
        path = self.write_plan("all", {"tools": tools})
        subprocess.run([sys.executable, "-m", "mcp_bridge", "module", "lock", str(path)], check=True)
        shutil.copy(path.parent / "amplifier.lock.json", self.folder)

    def fetch_foundation(self) -> None:
        """Fetch the package that tool-task needs, and add it to PYTHONPATH for the servers."""
        owner, repository, commit = FOUNDATION
        target = self.folder / repository
        run_git(target, "init", "--quiet", str(target))
        run_git(target, "-C", str(target), "fetch", "--quiet", "--depth=1", self._find_url(owner, repository), commit)
        run_git(target, "-C", str(target), "checkout", "--quiet", "FETCH_HEAD")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(target), os.environ.get("PYTHONPATH", "")]))

    def _find_url(self, owner: str, repository: str) -> str:
        if self.clones is None:
            return f"https://github.com/{owner}/{repository}"
        names = (repository, f"{repository}.git", f"{owner}+{repository}/repo")
        return f"file://{next(self.clones / name for name in names if (self.clones / name).exists()).resolve()}"


def run_git(folder: Path, *args: str) -> None:
    """Run git in a new folder."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", *args], cwd=folder, check=True)


def build_module(repositories: Repositories, name: str, *, public: bool = True, **config: Any) -> dict[str, Any]:
    """Return a plan entry: of the public module, or of the bridge's own module with the same name."""
    source = {"source": repositories.find_address(name)} if public else {}
    return {"module": name, **source, "config": config}


def build_modules(
    repositories: Repositories, names: Sequence[str], config: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return plan entries of public modules with their configurations."""
    return [build_module(repositories, name, **config.get(name, {})) for name in names]

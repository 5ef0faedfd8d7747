"""Simulated engines of containers, and servers with tools in their containers."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_bridge._version import __version__
from tests.kits.waiting import wait_until

CLIENT = Path(__file__).with_name("engine_client.py")
SERVICE = Path(__file__).with_name("engine_service.py")
IMAGE = f"mcp-tool-bridge:{__version__}"
HANGING = """
import re, sys
from mcp_bridge import tool

@tool
def hangs(mark: str) -> None:
    print("begun", mark, file=sys.stderr, flush=True)
    re.match(r"(a+)+$", "a" * 60 + "!")
"""
"""A tool that never releases the lock of Python, so its process does not notice the end of its input."""
# The keys that the bridge reads, as the programs of docker 28.2 and podman 4.3 print them.
DOCKER_INFO = {
    "MemoryLimit": True,
    "SwapLimit": True,
    "PidsLimit": True,
    "CgroupDriver": "systemd",
    "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"],
}
PODMAN_INFO = {
    "host": {
        "cgroupControllers": ["cpuset", "cpu", "memory", "pids"],
        "serviceIsRemote": False,
        "remoteSocket": {"path": "/run/user/1000/podman/podman.sock"},
        "security": {"rootless": False, "selinuxEnabled": False},
    }
}


class SimulatedEngine:
    """A folder with the program of an engine, and its service."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.folder = folder
        self.programs = folder / "programs"
        self.programs.mkdir(parents=True)
        program = self.programs / name
        words = [sys.executable, "-I", str(CLIENT), name, str(folder)]
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)
        self.facts: dict[str, Any] = {
            "is_running": True,
            "images": [IMAGE, "python:3.13"],
            "networks": ["tools"],
            "missing_programs": [],
            "volumes": [],
            "image_variables": {},
            "docker": DOCKER_INFO,
            "podman": PODMAN_INFO,
        }
        self.change()

    @property
    def env(self) -> dict[str, str]:
        """The environment in which the program is found."""
        return {"PATH": f"{self.programs}:{os.environ['PATH']}"}

    def change(self, **facts: Any) -> None:
        """Change what the engine reports and has."""
        self.facts |= facts
        (self.folder / "facts.json").write_text(json.dumps(self.facts))

    def list_commands(self, name: str) -> list[dict[str, Any]]:
        """Return the arguments and environment variables of the commands that were run with a first word."""
        path = self.folder / "commands.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        commands = [json.loads(line) for line in lines]
        return [command for command in commands if command["arguments"][0] == name]

    def list_containers(self) -> list[str]:
        """Return the names of the running containers."""
        path = self.folder / "containers.json"
        return list(json.loads(path.read_text())) if path.exists() else []

    def list_volumes(self) -> list[str]:
        """Return the names of the containers whose volumes exist."""
        return [path.name for path in self.folder.glob("volumes/*")]


@contextlib.contextmanager
def run_engine(folder: Path, name: str = "docker") -> Iterator[SimulatedEngine]:
    """Run an engine. At the end, it has no container."""
    engine = SimulatedEngine(folder / "engine", name)
    service = subprocess.Popen([sys.executable, str(SERVICE), str(engine.folder)])
    try:
        wait_until((engine.folder / "service.sock").exists)
        yield engine
        wait_until(lambda: not engine.list_containers())
    finally:
        service.kill()
        service.wait()

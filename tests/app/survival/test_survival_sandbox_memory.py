"""The setting `memory` also limits files in memory."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.app.survival.test_survival_sandbox_choice import fail_to_start
from tests.kits.sandbox.sandbox_kit import needs_bubblewrap
from tests.kits.survival.survival_kit import FIRST_WAY, run_server

MEMORY = 512 * 1024**2
TOOLS = """
import multiprocessing, os, subprocess
from mcp_bridge import tool

@tool
def fill() -> dict[str, int]:
    written = {}
    folders = [folder for folder, _, _ in os.walk("/", onerror=None) if not folder.startswith(("/proc", "/sys"))]
    for folder in folders:
        count = 0
        try:
            for number in range(20):
                with open(f"{folder}/file-{number}", "wb", buffering=0) as file:
                    for _ in range(64):
                        count += file.write(bytes(1024 * 1024))
        except OSError:
            pass
        if count:
            written[folder] = count
    return written

@tool
def share() -> int:
    lock = multiprocessing.Lock()
    with lock:
        return 1

@tool
def nest() -> bool:
    return subprocess.run(["unshare", "--user", "true"]).returncode == 0
"""
FAKE = """#!/bin/sh
for word in "$@"; do
  case "$word" in {words}) echo "bwrap: Unknown option $word" >&2; exit 1;; esac
done
exec {bwrap} "$@"
"""


def make_old_bubblewrap(folder: Path, *options: str) -> str:
    import shutil

    (folder / "bin").mkdir()
    program = folder / "bin" / "bwrap"
    program.write_text(FAKE.format(words="|".join(options), bwrap=shutil.which("bwrap")))
    program.chmod(0o755)
    return f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"


def make_settings() -> dict[str, object]:
    isolation = {"sandbox": "bubblewrap", "workers": 1, "memory": MEMORY, "file_size": "1 GiB"}
    return {"sources": [{"type": "python", "path": "own_tools.py", "isolation": isolation}]}


@needs_bubblewrap
def test_files_in_memory_count_as_memory(tmp_path: Path) -> None:
    with run_server(FIRST_WAY, tmp_path, TOOLS, make_settings()) as server:
        assert server.get_text("share") == "1"
        result = json.loads(server.get_text("fill"))
        assert set(result) == {"/tmp", "/dev/shm"}
        assert MEMORY * 0.9 < sum(result.values()) <= MEMORY


@needs_bubblewrap
def test_a_sandbox_cannot_create_namespaces_to_mount_file_systems_of_its_own(tmp_path: Path) -> None:
    with run_server(FIRST_WAY, tmp_path, TOOLS, make_settings()) as server:
        assert server.get_text("nest") == "false"


@needs_bubblewrap
def test_a_bubblewrap_that_cannot_limit_files_in_memory_is_an_error(tmp_path: Path) -> None:
    code, errors = fail_to_start(tmp_path, make_old_bubblewrap(tmp_path, "--size", "--disable-userns"))
    assert code != 0
    assert "bubblewrap before 0.7" in errors
    assert not (tmp_path / "imported").exists()


@needs_bubblewrap
def test_the_filter_forbids_namespaces_if_bubblewrap_cannot(tmp_path: Path) -> None:
    env = {"PATH": make_old_bubblewrap(tmp_path, "--disable-userns")}
    with run_server(FIRST_WAY, tmp_path, TOOLS, make_settings(), env=env) as server:
        assert server.get_text("share") == "1"
        assert server.get_text("nest") == "false"

"""`mcp-bridge init`: a project that runs as it is made, and nothing touched that was there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mcp_bridge
from mcp_bridge.cli import initialising
from mcp_bridge.cli.initialising import TEMPLATES, project_name

ROOT = Path(__file__).parents[2]
FILES = {*TEMPLATES, "local.mk"}


def run(folder: Path, *args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcp_bridge", *args],
        cwd=folder,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
    )


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    done = run(tmp_path, "init", "My Tools")
    assert done.returncode == 0, done.stderr
    return tmp_path / "My Tools"


def test_it_says_what_is_there_and_what_to_do_next(tmp_path: Path) -> None:
    done = run(tmp_path, "init", "My Tools")
    assert done.stdout == ""
    assert done.stderr.splitlines()[-4:] == [
        "Next:",
        "  cd 'My Tools' && make",
        "  mcp-bridge call days_between start=2026-01-01 end=2026-12-31",
        "  make install CLIENT=claude-code",
    ]
    assert names(tmp_path / "My Tools") <= FILES
    assert set(TEMPLATES) <= names(tmp_path / "My Tools")


def test_what_it_makes_is_sound_and_answers(made: Path) -> None:
    assert run(made, "validate").returncode == 0
    called = run(made, "call", "days_between", "start=2026-01-01", "end=2026-12-31")
    assert (called.returncode, called.stdout) == (0, "364\n")
    failed = run(made, "call", "days_between", "start=soon", "end=2026-12-31")
    assert failed.returncode == 1
    assert "Write it as YYYY-MM-DD" in failed.stdout + failed.stderr
    assert "ok " in run(made, "doctor").stderr


def test_its_own_tests_pass_here(made: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"], cwd=made, capture_output=True, text=True, timeout=300,
        env={key: value for key, value in os.environ.items() if "COV" not in key and "PYTEST" not in key},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


@pytest.mark.timeout(900)
def test_make_runs_its_tests_and_checks_it_in_an_environment_of_its_own(made: Path) -> None:
    (made / "local.mk").unlink(missing_ok=True)
    make = shutil.which("make")
    if make is None:
        pytest.skip("SKIPPED LOUDLY: no make here")
    done = subprocess.run(
        [make, f"PYTHON={sys.executable}", f"BRIDGE={ROOT}"],
        cwd=made,
        env={key: value for key, value in os.environ.items() if "COV" not in key and key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=800,
    )
    if done.returncode and "No matching distribution" in done.stderr and not os.environ.get("CI"):
        pytest.skip("SKIPPED LOUDLY: no network to install from")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    assert "2 tools, no problems" in done.stderr
    code = "import mcp_bridge; print(mcp_bridge.__file__)"
    where = subprocess.run([made / ".venv/bin/python", "-P", "-c", code], capture_output=True, text=True, timeout=60)
    assert Path(where.stdout.strip()).is_relative_to(made)


def test_files_that_are_there_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("mine")
    (tmp_path / "Makefile").symlink_to("nowhere")
    done = run(tmp_path, "init")
    assert done.returncode == 1
    assert "tools.py, Makefile are there already" in done.stderr
    assert names(tmp_path) == {"tools.py", "Makefile"}
    assert (tmp_path / "tools.py").read_text() == "mine"


def test_it_goes_beside_files_that_are_in_nobodys_way(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=60)
    (tmp_path / "notes.txt").write_text("mine")
    done = run(tmp_path, "init", ".")
    assert done.returncode == 0, done.stderr
    assert "  make" in done.stderr.splitlines()
    assert {".git", "notes.txt", *TEMPLATES} <= names(tmp_path)


@pytest.mark.parametrize("folder", ["file", "file/below", "x" * 300, "dangling"])
def test_a_folder_that_cannot_be_had_is_told(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    done = run(tmp_path, "init", folder)
    assert done.returncode == 2
    assert "no project can be made here: " in done.stderr
    assert "Traceback" not in done.stderr
    assert names(tmp_path) == {"file", "dangling"}
    assert (tmp_path / "file").read_text() == "mine"


def test_where_one_file_cannot_be_written_none_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impossible = {**TEMPLATES, "no/folder/for/it": "README.md.in"}
    monkeypatch.setattr(initialising, "TEMPLATES", impossible)
    with pytest.raises(mcp_bridge.ConfigError, match="no project can be made here"):
        initialising.init(tmp_path / "new" / "deep")
    assert names(tmp_path) == set()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="this user may write everywhere")
def test_a_folder_that_may_not_be_written_to_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = run(tmp_path, "init")
    assert done.returncode == 2
    assert "Permission denied" in done.stderr


@pytest.mark.parametrize(
    ("folder", "name"),
    [("My Tools", "my-tools"), ("日本", "my-tools"), ("-x-", "x"), ("a.b_c", "a-b_c"), ("/", "my-tools")],
)
def test_the_servers_name_is_made_of_the_folders(folder: str, name: str) -> None:
    assert project_name(Path("/somewhere", folder)) == name


@pytest.mark.parametrize("origin", ["/a path/of $HOME/it's #1", None])
def test_where_the_bridge_comes_from_stands_in_a_file_of_this_machine_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: str | None
) -> None:
    monkeypatch.setattr(initialising, "origin", lambda: origin)
    initialising.init(tmp_path / "p")
    local = tmp_path / "p" / "local.mk"
    assert local.exists() == (origin is not None)
    assert "local.mk" in (tmp_path / "p" / ".gitignore").read_text().splitlines()
    others = "".join(path.read_text() for path in (tmp_path / "p").iterdir() if path != local)
    assert "/a path" not in others
    if origin is not None and (make := shutil.which("make")):
        (tmp_path / "p" / "show.mk").write_text("include local.mk\nshow:\n\t@printf %s '$(BRIDGE)'\n")
        shown = subprocess.run(
            [make, "-s", "-f", "show.mk", "show"], cwd=tmp_path / "p", capture_output=True, text=True, timeout=60
        )
        assert shown.stdout == origin

"""`mcp-bridge init`: a project that runs as it is made, and nothing touched that was there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_bridge._cli import init
from mcp_bridge._cli.init import TEMPLATES, to_project_name
from mcp_bridge._cli.options import InitOptions
from mcp_bridge._settings import load
from mcp_bridge.errors import ConfigError
from tests.kits.packaging.packaging_kit import BUILD, built_wheel, environment, inside, with_dependencies

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


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """The project's wheel."""
    return built_wheel(tmp_path_factory, pytestconfig)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    done = inside(tmp_path, "init", "My Tools")
    assert done.code == 0, done.err
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
    called = run(made, "call", "days_between", "start=2026-01-01", "end=2026-12-31")
    assert (called.returncode, called.stdout) == (0, "364\n")
    failed = run(made, "call", "days_between", "start=soon", "end=2026-12-31")
    assert failed.returncode == 1
    assert "Write it as YYYY-MM-DD" in failed.stdout + failed.stderr
    assert "ok " in run(made, "doctor").stdout


@pytest.mark.timeout(600)
def test_make_runs_its_tests_and_checks_it_in_an_environment_of_its_own(made: Path, wheel: Path) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("SKIPPED LOUDLY: no make here")
    (made / "local.mk").unlink(missing_ok=True)
    with_dependencies(made / ".venv")  # that they can be had from an index is shown where uv starts a bundle
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "anyio.pytest_plugin"}  # all it would have
    done = subprocess.run(
        [make, f"PYTHON={sys.executable}", f"BRIDGE={wheel}"],
        cwd=made,
        env=environment(PIP_NO_DEPS="1", PIP_NO_INDEX="1", **plugins),
        capture_output=True,
        text=True,
        timeout=BUILD,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    assert "2 tools, no problems" in done.stdout
    command = made / ".venv" / "bin" / "mcp-bridge"
    where = subprocess.run([command, "init", "again"], cwd=made, capture_output=True, text=True, timeout=120)
    assert where.returncode == 0, where.stderr
    assert str(wheel) in (made / "again" / "local.mk").read_text()  # so it is not the bridge that runs these tests
    assert set(TEMPLATES) <= names(made / "again")


def test_files_that_are_there_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("mine")
    (tmp_path / "Makefile").symlink_to("nowhere")
    done = inside(tmp_path, "init")
    assert done.code == 1
    assert "tools.py, Makefile already exist" in done.err
    assert names(tmp_path) == {"tools.py", "Makefile"}
    assert (tmp_path / "tools.py").read_text() == "mine"


def test_it_goes_beside_files_that_are_in_nobodys_way(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=60)
    (tmp_path / "notes.txt").write_text("mine")
    done = inside(tmp_path, "init", ".")
    assert done.code == 0, done.err
    assert "  make" in done.err.splitlines()
    assert {".git", "notes.txt", *TEMPLATES} <= names(tmp_path)


@pytest.mark.parametrize("folder", ["file", "file/below", "x" * 300, "dangling"])
def test_a_folder_that_cannot_be_had_is_told(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    done = inside(tmp_path, "init", folder)
    assert done.code == 2
    assert "cannot create a project here: " in done.err
    assert names(tmp_path) == {"file", "dangling"}
    assert (tmp_path / "file").read_text() == "mine"


def test_where_one_file_cannot_be_written_none_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impossible = {**TEMPLATES, "no/folder/for/it": "README.md.in"}
    monkeypatch.setattr(init, "TEMPLATES", impossible)
    with pytest.raises(ConfigError, match="cannot create a project here"):
        init.create_project(InitOptions(folder=tmp_path / "new" / "deep"))
    assert names(tmp_path) == set()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="this user may write everywhere")
def test_a_folder_that_may_not_be_written_to_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = run(tmp_path, "init")
    assert done.returncode == 2
    assert "Permission denied" in done.stderr


@pytest.mark.parametrize(
    ("folder", "name"),
    [("My Tools", "my-tools"), ("日本", "my-tools"), ("-x-", "x"), ("a.b_c", "a-b_c")],
)
def test_the_servers_name_is_made_of_the_folders(folder: str, name: str) -> None:
    assert to_project_name(Path("/somewhere", folder)) == name


@pytest.mark.parametrize("folder", ["2026", "null"])
def test_settings_are_sound_whatever_the_folder_is_called(tmp_path: Path, folder: str) -> None:
    assert inside(tmp_path, "init", folder).code == 0
    assert load(tmp_path / folder / "mcp-bridge.yaml", {}).name == folder


@pytest.mark.parametrize("origin", ["/a path/of $HOME/it's #1", None])
def test_where_the_bridge_comes_from_stands_in_a_file_of_this_machine_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: str | None
) -> None:
    monkeypatch.setattr(init, "find_install_source", lambda: origin)
    init.create_project(InitOptions(folder=tmp_path / "p"))
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

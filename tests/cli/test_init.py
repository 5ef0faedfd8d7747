"""`mcp-bridge init`: a new project works, and existing files are not changed."""

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
from tests.kits.packaging.packaging_kit import (
    BUILD_TIMEOUT,
    add_dependencies,
    build_wheel,
    get_clean_environment,
    run_in_process,
)

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


def list_names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """Build the wheel of this package."""
    return build_wheel(tmp_path_factory, pytestconfig)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    result = run_in_process(tmp_path, "init", "My Tools")
    assert result.code == 0, result.err
    return tmp_path / "My Tools"


def test_the_created_files_and_the_next_steps_are_reported(tmp_path: Path) -> None:
    result = run(tmp_path, "init", "My Tools")
    assert result.stdout == ""
    assert result.stderr.splitlines()[-4:] == [
        "Next:",
        "  cd 'My Tools' && make",
        "  mcp-bridge call days_between start=2026-01-01 end=2026-12-31",
        "  make install CLIENT=claude-code",
    ]
    assert list_names(tmp_path / "My Tools") <= FILES
    assert set(TEMPLATES) <= list_names(tmp_path / "My Tools")


def test_a_new_project_is_valid_and_its_tool_can_be_called(made: Path) -> None:
    call = run(made, "call", "days_between", "start=2026-01-01", "end=2026-12-31")
    assert (call.returncode, call.stdout) == (0, "364\n")
    invalid_call = run(made, "call", "days_between", "start=soon", "end=2026-12-31")
    assert invalid_call.returncode == 1
    assert "Write it as YYYY-MM-DD" in invalid_call.stdout + invalid_call.stderr
    assert "ok " in run(made, "doctor").stdout


def test_make_tests_and_validates_the_project_in_its_own_environment(made: Path, wheel: Path) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("SKIPPED LOUDLY: no make here")
    (made / "local.mk").unlink(missing_ok=True)
    # Another test installs the dependencies from an index.
    add_dependencies(made / ".venv")
    # The environment has no other plugins.
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "anyio.pytest_plugin"}
    result = subprocess.run(
        [make, f"PYTHON={sys.executable}", f"BRIDGE={wheel}"],
        cwd=made,
        env=get_clean_environment(PIP_NO_DEPS="1", PIP_NO_INDEX="1", **plugins),
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4 passed" in result.stdout
    assert "2 tools, no problems" in result.stdout
    command = made / ".venv" / "bin" / "mcp-bridge"
    where = subprocess.run([command, "init", "again"], cwd=made, capture_output=True, text=True, timeout=120)
    assert where.returncode == 0, where.stderr
    # This is not the bridge that runs these tests.
    assert str(wheel) in (made / "again" / "local.mk").read_text()
    assert set(TEMPLATES) <= list_names(made / "again")


def test_nothing_is_written_if_one_of_the_files_exists(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("mine")
    (tmp_path / "Makefile").symlink_to("nowhere")
    result = run_in_process(tmp_path, "init")
    assert result.code == 1
    assert "tools.py, Makefile already exist" in result.err
    assert list_names(tmp_path) == {"tools.py", "Makefile"}
    assert (tmp_path / "tools.py").read_text() == "mine"


def test_other_files_in_the_folder_are_kept(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=60)
    (tmp_path / "notes.txt").write_text("mine")
    result = run_in_process(tmp_path, "init", ".")
    assert result.code == 0, result.err
    assert "  make" in result.err.splitlines()
    assert {".git", "notes.txt", *TEMPLATES} <= list_names(tmp_path)


@pytest.mark.parametrize("folder", ["file", "file/below", "x" * 300, "dangling"])
def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    result = run_in_process(tmp_path, "init", folder)
    assert result.code == 2
    assert "cannot create a project here: " in result.err
    assert list_names(tmp_path) == {"file", "dangling"}
    assert (tmp_path / "file").read_text() == "mine"


def test_no_file_is_left_if_one_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impossible = {**TEMPLATES, "no/folder/for/it": "README.md.in"}
    monkeypatch.setattr(init, "TEMPLATES", impossible)
    with pytest.raises(ConfigError, match="cannot create a project here"):
        init.create_project(InitOptions(folder=tmp_path / "new" / "deep"))
    assert list_names(tmp_path) == set()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="this user may write everywhere")
def test_a_read_only_folder_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    result = run(tmp_path, "init")
    assert result.returncode == 2
    assert "Permission denied" in result.stderr


@pytest.mark.parametrize(
    ("folder", "name"),
    [("My Tools", "my-tools"), ("日本", "my-tools"), ("-x-", "x"), ("a.b_c", "a-b_c")],
)
def test_the_name_of_the_server_is_made_from_that_of_the_folder(folder: str, name: str) -> None:
    assert to_project_name(Path("/somewhere", folder)) == name


@pytest.mark.parametrize("folder", ["2026", "null"])
def test_settings_are_valid_for_any_name_of_the_folder(tmp_path: Path, folder: str) -> None:
    assert run_in_process(tmp_path, "init", folder).code == 0
    assert load(tmp_path / folder / "mcp-bridge.yaml", {}).name == folder


@pytest.mark.parametrize("origin", ["/a path/of $HOME/it's #1", None])
def test_the_install_source_is_only_in_a_file_for_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: str | None
) -> None:
    monkeypatch.setattr(init, "find_install_source", lambda: origin)
    init.create_project(InitOptions(folder=tmp_path / "p"))
    local = tmp_path / "p" / "local.mk"
    assert local.exists() == (origin is not None)
    assert "local.mk" in (tmp_path / "p" / ".gitignore").read_text().splitlines()
    other_texts = "".join(path.read_text() for path in (tmp_path / "p").iterdir() if path != local)
    assert "/a path" not in other_texts
    if origin is not None and (make := shutil.which("make")):
        (tmp_path / "p" / "show.mk").write_text("include local.mk\nshow:\n\t@printf %s '$(BRIDGE)'\n")
        make_output = subprocess.run(
            [make, "-s", "-f", "show.mk", "show"], cwd=tmp_path / "p", capture_output=True, text=True, timeout=60
        )
        assert make_output.stdout == origin

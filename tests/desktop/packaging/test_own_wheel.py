"""The wheel of the bridge itself, contained in bundles and images."""

from __future__ import annotations

from importlib.metadata import Distribution
from pathlib import Path
from zipfile import ZipFile

import anyio
import pytest

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.packaging import release
from mcp_bridge._version import __version__
from tests.kits.packaging.packaging_kit import (
    KEY,
    call_tool,
    get_clean_environment,
    make_venv,
    run_in_new_process,
    run_in_process,
    run_pip,
    unpack_bundle,
)

NAME = f"mcp_tool_bridge-{__version__}-py3-none-any.whl"
OWN = frozenset({"RECORD", "WHEEL"})
"""Files of a wheel that name the tool that built it."""


def read_files(wheel: Path) -> dict[str, bytes]:
    """Return the files by name. Leave out the content of the metadata, because that of a checkout may be old."""
    with ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if name.rpartition("/")[2] not in OWN}
    return {name: b"" if name.endswith("/METADATA") else content for name, content in files.items()}


def test_the_wheel_of_an_editable_installation_is_the_one_that_pip_builds(tmp_path: Path, wheel: Path) -> None:
    made = release.build_wheel()
    (tmp_path / made.name).write_bytes(made.content)
    assert made.name == wheel.name
    assert read_files(tmp_path / made.name) == read_files(wheel)


def test_the_same_installation_gives_the_same_bytes() -> None:
    assert release.build_wheel() == release.build_wheel()


async def test_a_bundle_installs_its_bridge_without_an_index_and_passes_it_on(
    shelf_bundle: Path, tmp_path: Path
) -> None:
    first = unpack_bundle(shelf_bundle, tmp_path / "first")
    python = make_venv(tmp_path / "venv")
    result = run_pip("install", "--no-deps", "--no-index", first / "wheels" / NAME, python=python)
    assert result.returncode == 0, result.stderr
    env = get_clean_environment(SHELF_KEY=KEY, PREFIX="my")
    assert await call_tool(str(python), [str(first / "start.py")], env, "my__look", {"item": "pears"}) == "3 pears."
    # The installed bridge, which has no sources beside it, packs the same wheel.
    command = [python, "-m", "mcp_bridge", "export", "mcpb", "--output", tmp_path / "second.mcpb"]
    await anyio.run_process(command, cwd=first / "project", env=env)
    second = unpack_bundle(tmp_path / "second.mcpb", tmp_path / "second")
    assert (second / "wheels" / NAME).read_bytes() == (first / "wheels" / NAME).read_bytes()


def test_a_bundle_reports_its_wheel_of_the_bridge_and_the_alternative(project_folder: Path) -> None:
    result = run_in_new_process(project_folder, "export", "mcpb", env={"SHELF_KEY": KEY})
    assert f"mcp-bridge itself is in the bundle, as {NAME}. Use --from-index" in result.err


def test_an_image_contains_the_wheel_and_the_copied_files(project_folder: Path) -> None:
    result = run_in_process(project_folder, "export", "dockerfile", "--output", "Dockerfile")
    assert result.code == 0, result.err
    assert f"Wrote {NAME}, from which the image installs mcp-bridge. Use --from-index" in result.err
    assert read_files(project_folder / NAME)["mcp_bridge/_version.py"]


def test_nothing_is_added_for_an_index(project_folder: Path) -> None:
    result = run_in_process(project_folder, "export", "dockerfile", "--from-index")
    assert (result.code, list(project_folder.glob("*.whl"))) == (0, [])
    assert "wheel" not in result.err + result.out


def test_no_wheel_is_left_if_the_dockerfile_cannot_be_written(project_folder: Path) -> None:
    assert run_in_process(project_folder, "export", "dockerfile", "--output", "tools.py").code == 2
    assert list(project_folder.glob("*.whl")) == []


def test_a_wheel_and_an_index_exclude_each_other(project_folder: Path) -> None:
    result = run_in_process(project_folder, "export", "dockerfile", "--from-index", "--wheel", NAME)
    assert (result.code, result.err.strip()) == (
        2,
        "mcp-bridge: --wheel: --wheel and --from-index exclude each other. Use one of them",
    )


class OldMetadata(Distribution):
    """The metadata of an editable installation before later changes in the checkout."""

    version = "0.0.1"

    def read_text(self, filename: str) -> None: ...

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError


def test_metadata_of_another_version_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "distribution", lambda _: OldMetadata())
    with pytest.raises(ConfigError, match=r"is of 0\.0\.1, and its files are of .*Install it again"):
        release.build_wheel()


def test_a_bridge_that_is_not_installed_cannot_be_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "DISTRIBUTION", "mcp-tool-bridge-missing")
    with pytest.raises(ConfigError, match=r"is not installed, so it cannot be packed\. Use --wheel FILE"):
        release.build_wheel()

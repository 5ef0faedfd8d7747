"""`export mcpb` writes bundles that pass the official tool, start when unpacked, and contain no secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from mcp_bridge._version import __version__
from tests.kits.cli.cli_running import CommandResult
from tests.kits.packaging.packaging_kit import (
    BUILD_TIMEOUT,
    KEY,
    PACKAGED_FILES,
    BundleTool,
    call_tool,
    get_clean_environment,
    is_offline,
    make_venv,
    read_pip_settings_for_uv,
    run_in_new_process,
    run_in_process,
    run_pip,
    skip_loudly,
    skip_or_fail,
    unpack_bundle,
)
from tests.kits.paths import ROOT

SET = {"SHELF_KEY": KEY}
DATA = ("--include", "data/*.json")


def run_uv_sync(uv: Path, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Do the first step of `uv run`, and return its output."""
    command = [uv, "sync", "--directory", folder]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=BUILD_TIMEOUT)


def is_oldest_python() -> bool:
    """Whether this is the oldest version of Python that the bridge supports, which CI always tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["requires-python"] == f">={sys.version_info.major}.{sys.version_info.minor}"


def list_names(bundle: Path) -> list[str]:
    with ZipFile(bundle) as archive:
        return archive.namelist()


def read_manifest(bundle: Path) -> dict:
    with ZipFile(bundle) as archive:
        return json.loads(archive.read("manifest.json"))


@pytest.mark.npm
def test_the_official_tool_validates_packs_and_unpacks_it(
    shelf_bundle: Path, tmp_path: Path, official: BundleTool
) -> None:
    bundle = shelf_bundle
    folder = unpack_bundle(bundle, tmp_path / "by zip")
    assert "passes" in official(["validate", folder / "manifest.json"], tmp_path)
    official(["pack", folder, tmp_path / "again.mcpb"], tmp_path)
    assert sorted(list_names(tmp_path / "again.mcpb")) == list_names(bundle)
    official(["unpack", bundle, tmp_path / "by the tool"], tmp_path)
    assert (tmp_path / "by the tool" / "project" / "tools.py").read_bytes() == (
        folder / "project/tools.py"
    ).read_bytes()


@pytest.mark.npm
def test_the_official_tool_validates_a_complete_bundle(tmp_path: Path, official: BundleTool) -> None:
    (tmp_path / "tools.py").write_text('from mcp_bridge import tool\n\n\n@tool\ndef a(x: int) -> int:\n    """A."""\n')
    output = ["--author", "An Author", "--license", "MIT", "--description", "One.", "--package-version", "2.0.0-rc.1"]
    result = run_in_new_process(tmp_path, "export", "mcpb", "tools.py", *output, "--env", "API_TOKEN", "-o", "all.mcpb")
    assert result.code == 0, result.err
    folder = unpack_bundle(tmp_path / "all.mcpb", tmp_path / "all")
    assert "passes" in official(["validate", folder / "manifest.json"], tmp_path)


def test_a_bundle_has_only_the_needed_files(shelf_bundle: Path) -> None:
    fixed_names = [
        "manifest.json",
        "pyproject.toml",
        "start.py",
        f"wheels/mcp_tool_bridge-{__version__}-py3-none-any.whl",
    ]
    assert list_names(shelf_bundle) == sorted([*fixed_names, *(f"project/{name}" for name in PACKAGED_FILES)])


def test_the_same_project_makes_the_same_bytes(shelf_bundle: Path, project_folder: Path) -> None:
    first = shelf_bundle.read_bytes()
    os.utime(project_folder / "tools.py", (0, 0))
    assert run_in_new_process(project_folder, "export", "mcpb", *DATA, env=SET).code == 0
    assert (project_folder / "my-shelf.mcpb").read_bytes() == first


def test_tools_are_listed_as_clients_see_them(shelf_bundle: Path) -> None:
    result = read_manifest(shelf_bundle)
    assert result["tools"] == [{"name": "our__look", "description": "Look for something on the shelf."}]
    assert result["tools_generated"] is False
    assert (result["name"], result["display_name"], result["version"]) == ("my-shelf", "The shelf", "1.2.3")


def test_the_host_asks_for_each_variable_and_masks_secrets(shelf_bundle: Path) -> None:
    result = read_manifest(shelf_bundle)
    options = result["user_config"]
    assert {name: (item["sensitive"], item["required"]) for name, item in options.items()} == {
        "PREFIX": (False, False),
        "SHELF_KEY": (True, True),
    }
    assert options["PREFIX"]["default"] == "our"
    env = result["server"]["mcp_config"]["env"]
    assert env == {"PREFIX": "${user_config.PREFIX}", "SHELF_KEY": "${user_config.SHELF_KEY}"}


async def test_a_bundle_with_a_wheel_serves_from_any_folder(wheel_bundle: Path, tmp_path: Path) -> None:
    folder = unpack_bundle(wheel_bundle, tmp_path / "un packed")
    document = tomllib.loads((folder / "pyproject.toml").read_text())
    assert document["project"]["dependencies"] == [f"mcp-tool-bridge=={__version__}"]
    path = folder / document["tool"]["uv"]["sources"]["mcp-tool-bridge"]["path"]
    python = make_venv(tmp_path / "venv")
    result = run_pip("install", "--no-deps", "--no-index", path, python=python)
    assert result.returncode == 0, result.stderr
    # Some hosts pass a setting without a value in this way.
    left_empty = {**SET, "PREFIX": "${user_config.PREFIX}"}
    answer = await call_tool(
        str(python), [str(folder / "start.py")], get_clean_environment(**left_empty), "our__look", {"item": "pears"}
    )
    assert answer == "3 pears."


async def test_uv_starts_a_bundle_by_its_command(
    wheel_bundle: Path, tmp_path: Path, uv: Path, pytestconfig: pytest.Config
) -> None:
    folder = unpack_bundle(wheel_bundle, tmp_path / "unpacked")
    command = read_manifest(wheel_bundle)["server"]["mcp_config"]
    assert command["command"] == "uv"
    args = [word.replace("${__dirname}", str(folder)) for word in command["args"]]
    values = {"PREFIX": "my", "SHELF_KEY": KEY}
    env = {name: values[text.removeprefix("${user_config.").removesuffix("}")] for name, text in command["env"].items()}
    surroundings = get_clean_environment(**env, **read_pip_settings_for_uv(), VIRTUAL_ENV="")
    result = run_uv_sync(uv, folder, surroundings)
    if result.returncode and is_offline(result.stderr):
        skip_or_fail(pytestconfig, "NO NETWORK FOR UV, SO NO BUNDLE IS STARTED AS A HOST STARTS IT")
    # uv breaks the lines of its errors at the width of the terminal.
    if result.returncode and "for the current platform" in " ".join(result.stderr.split()):
        # A local index may have wheels for a single version of Python. uv prefers its files, and pip does not.
        skip = skip_or_fail if is_oldest_python() else skip_loudly
        skip(pytestconfig, "NO WHEELS FOR THIS PYTHON, SO NO BUNDLE IS STARTED AS A HOST STARTS IT")
    assert result.returncode == 0, result.stderr
    answer = await call_tool(str(uv), args, surroundings, "my__look", {"item": "pears"})
    assert answer == "3 pears."


def test_from_an_index_it_depends_on_this_release_by_name(project_folder: Path) -> None:
    (project_folder / "requirements.txt").write_text("mcp-tool-bridge\nsix>=1.16  # for old times\n-r more.txt\n")
    result = run_in_new_process(
        project_folder, "export", "mcpb", *DATA, "--needs", "idna", "--from-index", "-o", "b.mcpb", env=SET
    )
    with ZipFile(project_folder / "b.mcpb") as archive:
        document = tomllib.loads(archive.read("pyproject.toml").decode())
    bridge, *requirements = document["project"]["dependencies"]
    assert bridge.startswith(f"mcp-tool-bridge>={__version__},<")
    assert requirements == ["idna", "six>=1.16"]
    assert "requirements.txt: '-r more.txt' is left out, as it is not portable" in result.err


def test_packages_that_nothing_brings_are_named(project_folder: Path) -> None:
    (project_folder / "words.py").write_text("import httpx2, six_unlisted\ndef describe(item, amount): return item\n")
    # A folder without a Python file is no package of the project.
    (project_folder / "six_unlisted").mkdir()
    result = run_in_process(project_folder, "export", "dockerfile")
    assert "'six_unlisted' is imported but not required: add --needs six_unlisted" in result.err


def test_the_packed_files_are_reported(shelf_export: tuple[Path, CommandResult]) -> None:
    _, result = shelf_export
    assert "project/data/stock.json" in result.err
    assert "my-shelf.mcpb: 11 files, 1 tool" in result.err
    assert result.out == ""


def test_a_file_with_a_secret_is_not_packed(project_folder: Path) -> None:
    with (project_folder / "words.py").open("a") as file:
        file.write(f"KEY = {KEY!r}\n")
    result = run_in_new_process(project_folder, "export", "mcpb", *DATA, env=SET)
    assert result.code == 2
    assert "project/words.py: this file contains the value of a secret variable" in result.err
    assert KEY not in result.err
    assert not (project_folder / "my-shelf.mcpb").exists()


@pytest.mark.parametrize("name", [".env", ".git/config", "deep/__pycache__/*"])
def test_excluded_files_are_never_packed_even_if_they_are_named(project_folder: Path, name: str) -> None:
    result = run_in_process(project_folder, "export", "dockerfile", "--include", name)
    assert result.code == 2
    assert "is never packed" in result.err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("sources: [{type: python, path: ../tools.py}]", "sources[0].path: '../tools.py' is outside the folder"),
        ("sources: [{type: python, path: none.py}]", "sources[0].path: 'none.py' does not exist"),
        ("name: [", "mcp-bridge.yaml:1"),
        ("sources: [{type: python, path: broken.py}]", "broken.py:1: this is not valid Python"),
        ("sources: [{type: python, path: endless.py}]", "endless.py: this is not valid Python"),
        ("sources: [{type: python, path: ~unknown-user/t.py}]", "'~unknown-user/t.py' does not exist"),
        ('sources: [{type: python, path: "a\\0b"}]', "sources[0].path: found a null character"),
        (f"sources: [{{type: python, path: {'a' * 300}.py}}]", "sources[0].path: 'aaa"),
        (
            "sources: [{type: python, path: HERE/broken.py}]",
            "broken.py' is an absolute path, which is invalid on other machines",
        ),
        ("sources: [{type: python, path: venv/a.py}]", "sources[0].path: 'venv/a.py' is never packed"),
    ],
)
def test_settings_that_cannot_be_packed_are_reported_with_their_place(
    project_folder: Path, settings: str, message: str
) -> None:
    (project_folder / "mcp-bridge.yaml").write_text(settings.replace("HERE", str(project_folder)))
    (project_folder / "endless.py").write_text(f"x = {'-' * 100_000}1\n")
    (project_folder / "venv").mkdir()
    (project_folder / "venv" / "a.py").write_text("")
    (project_folder / "broken.py").write_text("def (")
    (project_folder.parent / "tools.py").write_text("")
    result = run_in_process(project_folder, "export", "dockerfile")
    assert result.code == 2
    assert message in result.err
    assert result.out == ""


def test_a_version_that_is_not_semantic_is_rejected_before_any_source_starts(project_folder: Path) -> None:
    (project_folder / "tools.py").write_text("print('started')\n")
    result = run_in_new_process(project_folder, "export", "mcpb", "--package-version", "one", env=SET)
    assert result.code == 2
    assert result.err.startswith("mcp-bridge: --package-version: 'one' is not a semantic version")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--include", "none/*"], "--include: no file matches 'none/*'"),
        (["--include", "/etc/*"], "--include: no file matches '/etc/*'"),
        (["--needs", "not a name"], "--needs: 'not a name' is not a portable requirement"),
        (["--env", "A=B"], "--env: 'A=B' is not the name of a variable"),
        (["--wheel", "none.whl"], "--wheel: this is not the name of a wheel"),
        (["--wheel", "mcp_tool_bridge-1.0-py3-none-any.whl"], "cannot read: No such file"),
        (["--wheel", "other-1.0-py3-none-any.whl"], "a wheel of 'other', not of 'mcp-tool-bridge'"),
        (["--output", "none/b"], "none/b: cannot write: No such file or directory"),
        (["--output", "deep"], "deep: cannot write: Is a directory"),
        (["--output", "."], ".: cannot write: Is a directory"),
        (["--output", "a" * 300], "cannot write: File name too long"),
        (["/"], "/: this file cannot be served"),
        (["--needs", "mine @ https://me:secret@example.com/x"], "--needs: 'mine @ https://***@example.com/x' is not"),
        (["tools.txt"], "tools.txt: this file cannot be served"),
        (["none.py"], "'none.py' does not exist"),
        (
            ["--strict"],
            "'dockerfile' has no option --strict. These formats have it: tools",
        ),
        (["--author", "me"], "'dockerfile' has no option --author. These formats have it: mcpb"),
    ],
)
def test_invalid_options_are_reported(project_folder: Path, args: list[str], message: str) -> None:
    (project_folder / "other-1.0-py3-none-any.whl").write_bytes(b"PK")
    result = run_in_process(project_folder, "export", "dockerfile", *args)
    assert result.code == 2
    assert message in result.err
    assert sorted(path.name for path in project_folder.iterdir() if path.name.startswith(".")) == [".env", ".git"]


def test_a_bridge_with_a_problem_is_not_packed(project_folder: Path) -> None:
    (project_folder / "words.py").write_text("import nothing_of_that_name\n")
    result = run_in_new_process(project_folder, "export", "mcpb", *DATA, env=SET)
    assert result.code != 0
    assert "nothing_of_that_name" in result.err
    assert not list(project_folder.glob("*.mcpb"))


def test_a_link_to_tools_travels_as_the_file_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text('from mcp_bridge import tool\n\n\n@tool\ndef a() -> str:\n    """A."""\n')
    (tmp_path / "mcp-bridge.yaml").write_text("name: linked\nsources: [{type: python, path: link.py}]\n")
    (tmp_path / "link.py").symlink_to("real.py")
    result = run_in_new_process(tmp_path, "export", "mcpb")
    assert result.code == 0, result.err
    with ZipFile(tmp_path / "linked.mcpb") as archive:
        assert archive.read("project/link.py") == (tmp_path / "real.py").read_bytes()


def test_a_link_out_of_the_project_is_rejected(project_folder: Path) -> None:
    (project_folder.parent / "outside.py").write_text("def describe(item, amount): return item\n")
    (project_folder / "words.py").unlink()
    (project_folder / "words.py").symlink_to("../outside.py")
    result = run_in_process(project_folder, "export", "dockerfile")
    assert result.code == 2
    assert "words.py: outside the folder of the settings. It is a link to a file outside" in result.err


def test_a_folder_of_tools_travels_as_a_folder(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    for name in ("one", "two"):
        (tmp_path / "many" / f"{name}.py").write_text(
            f'from mcp_bridge import tool\n\n\n@tool\ndef {name}() -> str:\n    """It."""\n'
        )
    result = run_in_new_process(tmp_path, "export", "mcpb", "many")
    assert result.code == 0, result.err
    bundle = tmp_path / "many.mcpb"
    assert {"project/many/one.py", "project/many/two.py"} <= set(list_names(bundle))
    with ZipFile(bundle) as archive:
        assert "\"project\" / 'many'" in archive.read("start.py").decode()


async def test_a_bundle_starts_with_any_file_name(tmp_path: Path) -> None:
    name = '\N{GRINNING FACE} it\'s \\ "it".py'
    (tmp_path / name).write_text(
        'from mcp_bridge import tool\n\n\n@tool\ndef a() -> str:\n    """A."""\n    return "b"\n'
    )
    result = run_in_new_process(tmp_path, "export", "mcpb", name, "-o", "b.mcpb")
    assert result.code == 0, result.err
    folder = unpack_bundle(tmp_path / "b.mcpb", tmp_path / "unpacked")
    assert await call_tool(sys.executable, [str(folder / "start.py")], get_clean_environment(), "a", {}) == "b"

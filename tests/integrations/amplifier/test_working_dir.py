"""Modules work in the folder of the settings, independent of the folder of the process."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client import Client

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS
from tests.kits.constants import STATELESS, TIMEOUT

pytestmark = pytest.mark.usefixtures("forgotten")

FILES = """
from pathlib import Path


class Where:
    name, description = "where", "Shows the folder that it works in."
    input_schema = {"type": "object"}

    def __init__(self, folder): self.folder = folder

    async def execute(self, input):
        return {"success": True, "output": str(self.folder)}


class WriteFile(Where):
    name, description = "write_file", "Writes a file below the folder that it works in."

    async def execute(self, input):
        path = (Path(self.folder) / input["file_path"]).resolve()
        if not path.is_relative_to(self.folder):
            return {"success": False, "error": f"Access denied: {path}"}
        path.write_text(input["content"])
        return {"success": True, "output": str(path)}


async def mount(coordinator, config):
    folder = coordinator.get_capability("session.working_dir") or str(Path.cwd())
    for tool in (Where(folder), WriteFile(folder)):
        await coordinator.mount("tools", tool)
"""
"""A module that finds its folder as tool-filesystem does."""

Roots = Callable[[Any], Coroutine[Any, Any, types.ListRootsResult]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create the folder of the settings."""
    folder = tmp_path / "settings"
    folder.mkdir()
    return folder


def write_settings(folder: Path, working_dir: str | None = None, **source: Any) -> Path:
    """Write a settings file with the module."""
    (folder / "files.py").write_text(FILES)
    plan = {"tools": [{"module": "files", "source": "files.py"}]}
    data: dict[str, Any] = {"sources": [{"type": "amplifier", "plan": plan, **source}]}
    path = folder / "bridge.json"
    path.write_text(json.dumps(data if working_dir is None else {**data, "working_dir": working_dir}, indent=2))
    return path


def build_bridge(folder: Path, working_dir: str | None = None, **source: Any) -> Bridge:
    """Build a bridge with the module."""
    return build_from_settings(load(write_settings(folder, working_dir, **source), {}))


def call(path: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Call a tool by the command, started in a folder."""
    command = [sys.executable, "-m", "mcp_bridge", "call", *arguments, "--file", str(path)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT)


async def get_folder(client: Client, **options: Any) -> str:
    """Return the working directory of the modules in a client's session."""
    result = await client.call_tool("where", {}, **options)
    assert not result.is_error, result.content
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def make_roots_callback(*folders: Path, requests: list[int] | None = None) -> Roots:
    """Return a client's callback with these roots, and count its calls."""

    async def list_roots(_: Any) -> types.ListRootsResult:
        if requests is not None:
            requests.append(1)
        return types.ListRootsResult.model_validate({"roots": [{"uri": folder.as_uri()} for folder in folders]})

    return list_roots


@BOTH_HOSTS
def test_a_command_started_in_the_root_folder_writes_only_below_the_settings(folder: Path, host: str) -> None:
    path, outside = write_settings(folder, host=host), folder.parent / "outside.txt"
    process = call(path, Path("/"), "write_file", "file_path=inside.txt", "content=hi")
    assert (process.returncode, process.stdout.strip()) == (0, str(folder / "inside.txt")), process.stderr
    denial = call(path, Path("/"), "write_file", f"file_path={outside}", "content=hi")
    assert (denial.returncode, "Access denied" in denial.stderr + denial.stdout) == (1, True)
    assert not outside.exists()


@pytest.mark.parametrize(
    ("working_dir", "expected"),
    [
        (None, "settings"),
        ("work", "settings/work"),
        ("../other", "other"),
        ("cwd", "started"),
        ("./cwd", "settings/cwd"),
    ],
)
@BOTH_HOSTS
async def test_modules_work_in_the_folder_of_the_setting(
    working_dir: str | None, expected: str, folder: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("work", "cwd", "../other", "../started"):
        (folder / name).mkdir()
    monkeypatch.chdir(folder / "../started")
    async with connect(build_bridge(folder, working_dir, host=host)) as client:
        assert await get_folder(client) == str(folder.parent / expected)


async def test_an_absolute_path_is_used_unchanged(folder: Path) -> None:
    async with connect(build_bridge(folder, str(folder.parent))) as client:
        assert await get_folder(client) == str(folder.parent)


def test_a_missing_folder_is_an_error_with_its_line(folder: Path) -> None:
    path = write_settings(folder, "missing")
    line = 1 + path.read_text().splitlines().index('  "working_dir": "missing"')
    with pytest.raises(ConfigError) as error_info:
        load(path, {})
    assert str(error_info.value).startswith(f"{path}:{line}: working_dir: expected an existing folder")


def test_a_file_is_no_working_dir(folder: Path) -> None:
    with pytest.raises(ConfigError, match="expected an existing folder"):
        load(write_settings(folder, "files.py"), {})


@BOTH_HOSTS
async def test_each_client_works_in_its_first_root_and_is_asked_once(tmp_path: Path, folder: Path, host: str) -> None:
    mine, yours, requests = tmp_path / "my work", tmp_path / "yours", []
    mine.mkdir()
    yours.mkdir()
    bridge = build_bridge(folder, "roots", host=host)
    with anyio.fail_after(TIMEOUT):
        async with (
            connect(
                bridge, mode="legacy", list_roots_callback=make_roots_callback(mine, yours, requests=requests)
            ) as first,
            connect(bridge.registry, mode="legacy", list_roots_callback=make_roots_callback(yours)) as second,
        ):
            results: list[str] = []

            async def look() -> None:
                results.append(await get_folder(first))

            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(look)
            assert results == [str(mine)] * 3
            assert await get_folder(second) == str(yours)
            assert requests == [1]


async def test_a_client_that_reads_the_status_first_works_in_its_root_too(tmp_path: Path, folder: Path) -> None:
    async with connect(
        build_bridge(folder, "roots"), mode="legacy", list_roots_callback=make_roots_callback(tmp_path)
    ) as client:
        await client.read_resource("amplifier://amplifier/status")
        assert await get_folder(client) == str(tmp_path)


async def fail_to_list_roots(_: Any) -> types.ListRootsResult:
    """Answer as a client that has roots but cannot list them."""
    raise ValueError("no")


@pytest.mark.parametrize(
    ("roots", "why"),
    [
        (None, "the client has no file:// root"),
        (make_roots_callback(), "the client has no file:// root"),
        (make_roots_callback(Path("/nowhere")), "the client's root 'file:///nowhere' is not a folder here"),
        (fail_to_list_roots, "the client has not listed its roots"),
    ],
    ids=["no capability", "none", "missing", "error"],
)
async def test_without_a_root_a_client_works_in_the_settings_folder_and_the_log_names_the_reason(
    roots: Roots | None, why: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "mcp_bridge.amplifier")
    async with connect(build_bridge(folder, "roots"), mode="legacy", list_roots_callback=roots) as client:
        assert await get_folder(client) == str(folder)
        assert await get_folder(client) == str(folder)
    (line,) = [record.getMessage() for record in caplog.records if "working_dir" in record.getMessage()]
    assert line.startswith(f"working_dir: roots: {why}")


async def test_stateless_clients_are_asked_only_if_they_name_a_session(tmp_path: Path, folder: Path) -> None:
    requests: list[int] = []
    async with connect(
        build_bridge(folder, "roots"),
        mode=STATELESS,
        list_roots_callback=make_roots_callback(tmp_path, requests=requests),
    ) as client:
        assert await get_folder(client) == str(folder)
        assert requests == []
        for _ in range(2):
            assert await get_folder(client, meta={"mcp-bridge/session": "mine"}) == str(tmp_path)
        assert requests == [1]


async def test_clients_that_share_a_session_are_not_asked(tmp_path: Path, folder: Path) -> None:
    requests: list[int] = []
    async with connect(
        build_bridge(folder, "roots", sessions="shared"),
        mode="legacy",
        list_roots_callback=make_roots_callback(tmp_path, requests=requests),
    ) as client:
        assert (await get_folder(client), requests) == (str(folder), [])


def test_a_command_has_no_roots_and_works_in_the_settings_folder(folder: Path) -> None:
    process = call(write_settings(folder, "roots"), Path("/"), "where")
    assert (process.returncode, process.stdout.strip()) == (0, str(folder)), process.stderr


@pytest.mark.parametrize(
    ("working_dir", "mode", "expected"),
    [
        (None, "legacy", "settings"),
        ("work", "legacy", "settings/work"),
        ("roots", "legacy", "root"),
        ("roots", STATELESS, "root"),
    ],
)
async def test_a_worker_has_the_same_folder(working_dir: str | None, mode: str, expected: str, folder: Path) -> None:
    for name in ("work", "../root"):
        (folder / name).mkdir()
    isolation = {"tools": ["where"], "workers": 1}
    bridge = build_bridge(folder, working_dir, isolation=isolation)
    root = (folder / "../root").resolve()
    async with connect(bridge, mode=mode, list_roots_callback=make_roots_callback(root)) as client:
        assert await get_folder(client, meta={"mcp-bridge/session": "mine"}) == str(folder.parent / expected)

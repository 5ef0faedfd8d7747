"""Servers in bubblewrap have access only to the paths in the settings."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._sources.upstream.options import UpstreamOptions
from tests.kits.processes.processes_kit import find_processes, make_token, wait_until_gone
from tests.kits.upstream.upstream_kit import call_text, run_http_server, run_source, wait_for_state, write_command

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]


async def access(folder: Path, what: str, **options: Any) -> str:
    """Let a sandboxed server access something, and return its report."""
    entry = write_command(sandbox=options or "bubblewrap")
    async with run_source(entry, folder) as (source, client):
        await wait_for_state(source, "ready")
        return await call_text(client, "echo", what)


async def test_a_sandboxed_server_works(tmp_path: Path) -> None:
    assert await access(tmp_path, "hello") == "hello"


async def test_a_sandboxed_server_reads_only_paths_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("some data")
    assert "No such file" in await access(tmp_path, f"read {tmp_path}/secret")
    assert await access(tmp_path, f"read {tmp_path}/data/file", read=["data"]) == "some data"
    assert "Read-only" in await access(tmp_path, f"write {tmp_path}/data/file", read=["data"])
    assert await access(tmp_path, f"write {tmp_path}/data/file", write=["data"]) == "written"
    assert (tmp_path / "data" / "file").read_text() == "written"


async def test_a_sandboxed_server_reads_the_paths_in_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "named").write_text("a file")
    entry = write_command("", "named", sandbox="bubblewrap")
    async with run_source(entry, tmp_path) as (source, client):
        await wait_for_state(source, "ready")
        assert await call_text(client, "echo", f"read {tmp_path}/named") == "a file"


async def test_a_sandboxed_server_has_a_network_only_if_the_settings_allow_it(tmp_path: Path) -> None:
    with run_http_server() as address:
        port = address.rpartition(":")[2]
        assert "refused" in await access(tmp_path, f"connect {port}")
        assert await access(tmp_path, f"connect {port}", network=True) == "connected"


async def test_no_process_of_a_sandboxed_server_remains(tmp_path: Path) -> None:
    token = make_token()
    async with run_source(write_command("stubborn", token, sandbox="bubblewrap"), tmp_path) as (source, _):
        await wait_for_state(source, "ready")
        assert find_processes(token)
    wait_until_gone(token)


async def test_without_bubblewrap_the_server_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_bridge._runtime.sandbox.bubblewrap.PROGRAM", "no-such-bwrap")
    token = make_token()
    async with run_source(write_command("", token, sandbox="bubblewrap"), tmp_path) as (source, _):
        assert "bubblewrap cannot create a sandbox here" in (await wait_for_state(source, "broken")).reason
        assert find_processes(token) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"url": "http://127.0.0.1/mcp", "sandbox": "bubblewrap"}, "sandbox requires command"),
        ({"command": "x", "sandbox": "firejail"}, "expected bubblewrap"),
    ],
)
def test_settings_that_do_not_fit_together_are_rejected(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        UpstreamOptions(**options)

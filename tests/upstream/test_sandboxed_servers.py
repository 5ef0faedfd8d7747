"""Servers in a sandbox have access only to the paths in the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kits.processes.processes_kit import find_processes, make_token, wait_until_gone
from tests.kits.sandbox.sandbox_kit import on_both_mechanisms
from tests.kits.upstream.upstream_kit import call_text, run_http_server, run_source, wait_for_state, write_command

pytestmark = [pytest.mark.anyio, on_both_mechanisms]
HIDDEN = {"bubblewrap": "No such file", "landlock": "Permission denied"}
READ_ONLY = {"bubblewrap": "Read-only", "landlock": "Permission denied"}
NO_NETWORK = {"bubblewrap": "refused", "landlock": "not permitted"}


async def access(mechanism: str, folder: Path, what: str, **options: Any) -> str:
    """Let a sandboxed server access something, and return its report."""
    entry = write_command(sandbox={"type": mechanism, **options} if options else mechanism)
    async with run_source(entry, folder) as (source, client):
        await wait_for_state(source, "ready")
        return await call_text(client, "echo", what)


async def test_a_sandboxed_server_works(mechanism: str, tmp_path: Path) -> None:
    assert await access(mechanism, tmp_path, "hello") == "hello"


async def test_a_sandboxed_server_reads_only_paths_of_the_settings(mechanism: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("some data")
    assert HIDDEN[mechanism] in await access(mechanism, tmp_path, f"read {tmp_path}/secret")
    assert await access(mechanism, tmp_path, f"read {tmp_path}/data/file", read=["data"]) == "some data"
    assert READ_ONLY[mechanism] in await access(mechanism, tmp_path, f"write {tmp_path}/data/file", read=["data"])
    assert await access(mechanism, tmp_path, f"write {tmp_path}/data/file", write=["data"]) == "written"
    assert (tmp_path / "data" / "file").read_text() == "written"


async def test_a_sandboxed_server_reads_the_paths_in_its_arguments(mechanism: str, tmp_path: Path) -> None:
    (tmp_path / "named").write_text("a file")
    entry = write_command("", "named", sandbox=mechanism)
    async with run_source(entry, tmp_path) as (source, client):
        await wait_for_state(source, "ready")
        assert await call_text(client, "echo", f"read {tmp_path}/named") == "a file"


async def test_a_sandboxed_server_has_a_network_only_if_the_settings_allow_it(mechanism: str, tmp_path: Path) -> None:
    with run_http_server() as address:
        port = address.rpartition(":")[2]
        assert NO_NETWORK[mechanism] in await access(mechanism, tmp_path, f"connect {port}")
        assert await access(mechanism, tmp_path, f"connect {port}", network=True) == "connected"


async def test_no_process_of_a_sandboxed_server_remains(mechanism: str, tmp_path: Path) -> None:
    token = make_token()
    async with run_source(write_command("stubborn", token, sandbox=mechanism), tmp_path) as (source, _):
        await wait_for_state(source, "ready")
        assert find_processes(token)
    wait_until_gone(token)

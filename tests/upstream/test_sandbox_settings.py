"""A server with a sandbox does not run without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._sources.upstream.options import UpstreamOptions
from tests.kits.processes.processes_kit import find_processes, make_token
from tests.kits.upstream.upstream_kit import run_source, wait_for_state, write_command


@pytest.mark.anyio
async def test_without_bubblewrap_the_server_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_bridge._runtime.sandbox.bubblewrap.PROGRAM", "no-such-bwrap")
    token = make_token()
    async with run_source(write_command("", token, sandbox="bubblewrap"), tmp_path) as (source, _):
        assert (
            "bubblewrap cannot create a sandbox here: it is not installed"
            in (await wait_for_state(source, "broken")).reason
        )
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

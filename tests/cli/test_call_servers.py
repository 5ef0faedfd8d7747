"""`call` with a file of servers waits for the server that may have the tool, and for no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.cli.cli_running import run
from tests.kits.upstream.upstream_kit import write_command, write_settings

SERVERS = {"good": write_command(), "slow": write_command("hang at start", start_timeout=1000)}


@pytest.mark.parametrize(
    ("tool", "expected"),
    [("good__echo", "hello"), ("good__nothing", "Did you mean 'good__echo'?")],
    ids=["known", "unknown"],
)
def test_a_server_that_does_not_start_delays_no_call_of_another(tmp_path: Path, tool: str, expected: str) -> None:
    file = write_settings(tmp_path, SERVERS)
    done = run("call", file, tool, "text=hello", cwd=tmp_path, env={"XDG_STATE_HOME": str(tmp_path)})
    assert expected in done.out + done.err

"""The relay imports little, because each client of a shared server starts one."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("asyncio", "anyio", "pydantic", "mcp", "orjson", "jsonschema_rs", "typer", "subprocess", "logging")


def test_the_relay_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from mcp_bridge._cli import main\n"
        "from mcp_bridge._cli.shared import command_line, instance, launch, relay\n"
        "command_line.parse_arguments(command_line.ServeOptions, ['--shared', 'x.yaml'])\n"
        "print(*sys.modules)\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(HEAVY).isdisjoint(process)

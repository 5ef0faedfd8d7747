"""stdio: real processes, one for each connection."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.client.stdio_client import start_server
from tests.kits.constants import TIMEOUT
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_ways import Connected, over

STDIO = over("stdio")
TOOLS = """
import os
from mcp_bridge import tool

@tool
def crash() -> str:
    "Fails."
    raise RuntimeError("it was the hämster")

@tool
def credentials() -> str:
    "From where they belong."
    return os.environ["TOKEN"]
"""


@proves("stdio/only-messages")
@STDIO
async def test_nothing_but_messages_reaches_stdout(connected: Connected, tmp_path: Path) -> None:
    stderr = (tmp_path / "stderr").open("wb")
    with stderr:
        options: dict[str, Any] = {"stateless": connected.stateless, "stderr": stderr}
        # This client accepts only messages on stdout.
        async with start_server(connected.command(), **options) as raw:
            assert (await raw.call("noise"))["content"][0]["text"] == "read ''"
            assert (await raw.call("echo", {"text": "hi"}))["content"][0]["text"] == "hi"
    output = (tmp_path / "stderr").read_text("utf-8")
    assert all(f"noise: {how} ünï" in output for how in ("print", "descriptor", "child"))


@proves("stdio/lines")
@STDIO
async def test_each_message_is_one_line(connected: Connected) -> None:
    text = "several\nlines\r\nand \u2028 more\r"
    async with connected.raw_client() as raw:
        assert (await raw.call("echo", {"text": text}))["content"][0]["text"] == text
        request = raw.make_request("tools/call", {"name": "echo", "arguments": {"text": "pieces"}})
        line = json.dumps(request).encode() + b"\n"
        for start in range(0, len(line), 40):
            await raw.write(line[start : start + 40])
        assert (await raw.receive_response(request["id"]))["result"]["content"][0]["text"] == "pieces"


@proves("stdio/shutdown")
@over("stdio", both_loops=True)
async def test_it_exits_at_the_end_of_its_input(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        await raw.get_result("tools/list")
        assert await raw.close() == 0


@proves("stdio/shutdown")
@over("stdio", stateless=False)
@pytest.mark.parametrize("options", [{"drain": 10 * TIMEOUT}], ids=["long drain"])
async def test_it_exits_also_with_a_question_that_can_be_answered_no_more(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        await raw.send_call("ask_name")
        await raw.receive_message("elicitation/create")
        # The server does not wait for the grace period.
        assert await raw.close() == 0


@proves("stdio/stderr", "stdio/no-http-auth")
@STDIO
async def test_logs_go_to_stderr_and_credentials_come_from_the_environment(
    connected: Connected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    settings = {"sources": [{"type": "python", "path": "tools.py"}], "http": {"token_env": "TOKEN"}}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    monkeypatch.setenv("TOKEN", "secret")
    command = [sys.executable, "-m", "mcp_bridge", "serve", str(tmp_path / "settings.json")]
    with (tmp_path / "stderr").open("wb") as stderr:
        async with start_server(command, stateless=connected.stateless, stderr=stderr) as raw:
            text = (await raw.call("credentials"))["content"][0]["text"]
            # The tool has the real value, and the client sees only this text.
            assert text == "[secret]"
            assert (await raw.call("crash"))["isError"] is True
            assert "hämster" not in json.dumps(raw.received, ensure_ascii=False)
    assert "it was the hämster" in (tmp_path / "stderr").read_text("utf-8")

"""Names, arguments, URIs and headers of clients cannot forge lines of the log."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from tests.client.server_process import ServerProcess, Way
from tests.kits.constants import TIMEOUT
from tests.kits.survival.fault_kit import SharedServers
from tests.kits.survival.secret_kit import OTHERS, STAMPED
from tests.kits.survival.survival_kit import SECOND_WAY, on_one_way, run_server

BREAKERS = (
    "\n",
    "\r\n",
    "\x1b[2K",
    "\x85",
    "\u2028",
    "\u202e",
    "\U000e0041",
)
FORGED = "2026-01-01 00:00:00,000 ERROR forged: you are root"
FORGES = '''
import logging, os, sys, threading
from mcp_bridge import ToolError, tool, resource, CallContext

log = logging.getLogger("forges")

class Odd(Exception):
    """Of a name that breaks lines."""

@tool
def logs(text: str) -> str:
    """Log what is given, in every place of a record."""
    log.error("given %s", text)
    logging.getLogger(f"forges.{text}").error("by its name")
    log.error("by its stack", stack_info=True, extra={"more": text})
    try:
        raise type(f"Odd{text}", (Odd,), {})(text)
    except Odd as error:
        error.add_note(text)
        log.exception(text)
    thread = threading.Thread(target=raises, args=(text,), name=text)
    thread.start()
    thread.join()
    return "done"

@tool
def raises(text: str) -> str:
    """Raise what is given."""
    raise ValueError(text) from KeyError(text)

@resource("forged://{text}")
def forged(text: str) -> str:
    """Raise what is given."""
    raise ValueError(text)
'''


@on_one_way("breaker", BREAKERS, smoke=["\n"])
def test_a_log_line_cannot_be_forged(server: Any, breaker: str) -> None:
    text = f"before{breaker}{FORGED}"
    assert server.get_text("logs", text=text) == "done"
    assert server.get_result("raises", text=text)["isError"]
    assert "error" in server.send_request("tools/call", {"name": text, "arguments": {text: text}}).result(TIMEOUT)
    assert "error" in server.send_request("resources/read", {"uri": f"forged://{quote(text)}"}).result(TIMEOUT)
    assert "error" in server.send_request("resources/read", {"uri": f"forged://{text}"}).result(TIMEOUT)
    assert "error" in server.send_request(text, {text: text}).result(TIMEOUT)
    server.wait_for_stderr("you are root")
    check_log_lines(server)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    """Yield servers with tools that log their arguments."""

    @contextlib.contextmanager
    def start(way: Way) -> Iterator[Any]:
        options = ("--log-file", "the.log", "--log-level", "debug")
        with run_server(way, tmp_path_factory.mktemp("forging"), FORGES, options=options) as server:
            yield server
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
            check_log_lines(server)

    with contextlib.closing(SharedServers(start)) as servers:
        yield servers


def check_log_lines(server: ServerProcess) -> None:
    """Assert that each record of the log is one line, with an indented traceback below it."""
    for text in (server.stderr, (server.folder / "the.log").read_text()):
        lines = text.split("\n")
        # The last line may be half written when the server has ended.
        assert lines.pop() == "" or server.is_running
        for line in lines:
            assert STAMPED.match(line) or line.startswith(("  ", *OTHERS)), line
            assert line.isprintable(), line
            assert not line.startswith(FORGED)


@pytest.mark.parametrize("way", [SECOND_WAY], ids=str)
def test_headers_forge_nothing(server: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    for name in ("Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Last-Event-ID", "Content-Type"):
        headers = [(key, value) for key, value in server.headers.items() if key != name]
        header = (name, f"x\x1b[2K\x85\x9b{FORGED}".encode("latin-1"))
        answer = httpx2.post(f"{server.base}/mcp", content=body, headers=[*headers, header], timeout=TIMEOUT)
        assert answer.status_code >= 200
    check_log_lines(server)

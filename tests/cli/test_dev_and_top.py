"""`dev` serves a file with its page, and `top` shows the calls of a server in a terminal or a pipe."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
from pathlib import Path

import anyio
import httpx2
import pytest

from tests.kits.constants import TIMEOUT
from tests.kits.http.http_hosting import HttpWay
from tests.kits.web.page_commands import COMMAND, PAGE, TOOLS, run_command


async def call_add(base: str, token: str | None) -> str:
    async with HttpWay("http", "2026-07-28").connect(base, token=token) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        return str(result.content[0].text)  # type: ignore[union-attr]


async def test_dev_serves_a_page_with_a_random_token_and_opens_the_browser(tmp_path: Path) -> None:
    browser, url_file = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {url_file}.new\nmv {url_file}.new {url_file}\n')
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    async with run_command(tmp_path, "dev", "--port", "0", BROWSER=str(browser)) as dev:
        url, base, token = (await dev.wait_for(PAGE)).groups()
        with anyio.fail_after(TIMEOUT):
            while not url_file.exists():  # noqa: ASYNC110 - the browser is a process
                await anyio.sleep(0.05)
        assert url_file.read_text().strip() == url
        async with httpx2.AsyncClient(base_url=base) as http:
            assert (await http.get("/page/state")).status_code == 401
            state = (await http.get("/page/state", headers={"Authorization": f"Bearer {token}"})).json()
            assert state["can"] == {
                "answer": True,
                "approve": True,
                "quarantine": True,
                "retry": True,
                "dialect": False,
                "install": True,
            }
        assert await call_add(base, token) == "3"
        (tmp_path / "tools.py").write_text(TOOLS.replace("a + b", "a - b"))
        with anyio.fail_after(TIMEOUT):
            while await call_add(base, token) != "-1":  # noqa: ASYNC110 - it is loaded again some time
                await anyio.sleep(0.05)
        assert await dev.end(signal.SIGINT) == 0
    assert "Traceback" not in dev.errors


async def test_dev_takes_another_port_if_its_own_is_in_use(tmp_path: Path) -> None:
    try:
        listener: socket.socket | None = socket.create_server(("127.0.0.1", 8808))
    # Another program uses the port.
    except OSError:
        listener = None
    try:
        async with run_command(tmp_path, "dev", "--no-open") as dev:
            _, base, _ = (await dev.wait_for(PAGE)).groups()
            assert not base.endswith(":8808")
            assert await dev.end(signal.SIGTERM) == 0
    finally:
        if listener is not None:
            listener.close()


async def test_top_prints_a_line_for_each_call_in_a_pipe(tmp_path: Path) -> None:
    async with run_command(tmp_path, "dev", "--no-open", "--port", "0") as dev:
        url, base, token = (await dev.wait_for(PAGE)).groups()
        # This call ends before `top` starts.
        await call_add(base, token)
        async with run_command(tmp_path, "top", f"{base}/mcp", "--token-env", "KEY", KEY=token) as top:
            async with anyio.create_task_group() as tasks:

                async def call_until_shown() -> None:
                    while True:
                        await call_add(base, token)
                        await anyio.sleep(0.1)

                tasks.start_soon(call_until_shown)
                line = await top.wait_for(r"(?m)^\d\d:\d\d:\d\d  ok  [\d.]+  add  mcp \S+  \{\"a\": 1, \"b\": 2\}$")
                tasks.cancel_scope.cancel()
            assert line
            assert await top.end(signal.SIGINT) == 0
        assert "Traceback" not in top.errors
        # `dev` reports a URL with the token.
        async with run_command(tmp_path, "top", url) as top:
            await dev.end(signal.SIGINT)
            await top.wait_for("cannot be reached|disconnected")


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["{base}"], 1, "needs a valid token.*the address of the page that `mcp-bridge dev` reports"),
        (["{base}#token=caf%C3%A9"], 1, "the token has characters that no HTTP header can have"),
        (["http://127.0.0.1:1"], 1, "cannot be reached"),
        (["missing.yaml"], 2, "missing.yaml"),
    ],
)
async def test_top_reports_why_it_cannot_connect(tmp_path: Path, arguments: list[str], code: int, problem: str) -> None:
    async with run_command(tmp_path, "dev", "--no-open", "--port", "0") as dev:
        _, base, _ = (await dev.wait_for(PAGE)).groups()
        async with run_command(tmp_path, "top", *(word.format(base=base) for word in arguments)) as top:
            await top.wait_for(problem)
            with anyio.fail_after(TIMEOUT):
                assert await top.process.wait() == code
        assert "Traceback" not in top.errors
        assert "caf" not in top.errors


async def test_top_draws_the_calls_in_a_terminal_until_q_is_typed(tmp_path: Path) -> None:
    async with run_command(tmp_path, "dev", "--no-open", "--port", "0") as dev:
        url, base, token = (await dev.wait_for(PAGE)).groups()
        await call_add(base, token)
        controller, terminal = pytest.importorskip("pty").openpty()
        env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
        process = subprocess.Popen(  # noqa: ASYNC220 - it needs a terminal
            [*COMMAND, "top", url], cwd=tmp_path, stdin=terminal, stdout=terminal, stderr=terminal, env=env
        )
        os.close(terminal)
        try:
            output = await read_until(controller, b"q: quit", b'{"a": 1, "b": 2}')
            assert b"1 client" in output
            # The alternate screen leaves the terminal unchanged at the end.
            assert b"\x1b[?1049h" in output
            os.write(controller, b"q")
            assert b"\x1b[?1049l" in await read_until(controller, b"\x1b[?1049l")
            assert await anyio.to_thread.run_sync(process.wait, TIMEOUT) == 0
        finally:
            process.kill()
            process.wait()
            os.close(controller)


async def read_until(controller: int, *words: bytes) -> bytes:
    """Read the output of a terminal until it has all of these words."""
    output = b""
    with anyio.fail_after(TIMEOUT):
        while not all(word in output for word in words):
            await anyio.wait_readable(controller)
            try:
                output += os.read(controller, 65536)
            # The other end is closed.
            except OSError:
                break
    return output

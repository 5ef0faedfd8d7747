"""The file of the history: calls survive a restart, without secrets, and only operators see the calls of others."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings import Settings, load
from mcp_bridge._web import history_file
from tests.kits.constants import TIMEOUT
from tests.kits.http.http_hosting import build_registry, make_entry
from tests.kits.web.web_kit import serve_page

TOKENS = {"ann": "token-of-ann", "bob": "token-of-bob"}


async def work(data: Any, ctx: CallContext) -> str:
    await ctx.log("info", "key: very-secret-key")
    if data.get("breaks"):
        raise RuntimeError("the shelf has collapsed")
    return "done"


def build_bridge() -> Bridge:
    bridge = Bridge(build_registry(make_entry("work", work)))
    bridge.hide_secrets(["very-secret-key"])
    return bridge


def load_settings(folder: Path, history: str = "calls.sqlite3") -> Settings:
    file = folder / "bridge.json"
    file.write_text(json.dumps({"http": {"page": {"history": history}}}))
    return load(file, {})


async def wait_for_saved_calls(path: Path, last_id: int) -> None:
    """Wait until the file has the call with this id."""
    with anyio.fail_after(TIMEOUT):
        while True:
            database = sqlite3.connect(path)
            saved_id = database.execute("SELECT max(id) FROM calls").fetchone()[0]
            database.close()
            if saved_id == last_id:
                return
            await anyio.sleep(0.02)


async def test_calls_survive_a_restart_without_their_secrets(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite3"
    async with serve_page(build_bridge(), settings=load_settings(tmp_path)) as server, server.read() as page:
        await page.call_tool("work", password="hunter22")
        await page.call_tool("work", breaks=True)
        before = (await page.read_state())["calls"]
        await wait_for_saved_calls(path, 2)
    assert path.stat().st_mode & 0o077 == 0
    content = path.read_bytes()
    assert b"hunter22" not in content
    assert b"very-secret-key" not in content
    async with serve_page(build_bridge(), settings=load_settings(tmp_path)) as server, server.read() as page:
        assert (await page.read_state())["calls"] == before
        await page.call_tool("work")
        calls = (await page.read_state())["calls"]
        details = (await page.http.get(f"/page/calls/{before[0]['id']}")).json()
    assert calls[1:] == before
    assert [call["id"] for call in calls] == [3, 2, 1]
    assert "the shelf has collapsed" in details["exception"]
    assert [line["data"] for line in details["logs"]] == ["key: [secret]"]


async def test_principals_see_only_their_saved_calls_and_no_exception(tmp_path: Path) -> None:
    options: dict[str, Any] = {"settings": load_settings(tmp_path), "principals": TOKENS, "is_shared": True}
    async with (
        serve_page(build_bridge(), **options) as server,
        server.read("token-of-ann") as ann,
        server.read("token-of-bob") as bob,
    ):
        await ann.call_tool("work", breaks=True)
        await bob.call_tool("work")
        await wait_for_saved_calls(tmp_path / "calls.sqlite3", 2)
    async with serve_page(build_bridge(), **options) as server, server.read("token-of-ann") as ann:
        (call,) = (await ann.read_state())["calls"]
        details = (await ann.http.get(f"/page/calls/{call['id']}")).json()
        response = await ann.http.get(f"/page/calls/{call['id'] + 1}")
    assert (call["principal"], call["state"], details["exception"]) == ("ann", "error", None)
    assert response.status_code == 404


async def test_the_file_has_only_the_latest_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_file, "MAX_CALLS", 3)
    async with serve_page(build_bridge(), settings=load_settings(tmp_path)) as server, server.read() as page:
        for _ in range(5):
            await page.call_tool("work")
        await wait_for_saved_calls(tmp_path / "calls.sqlite3", 5)
    async with serve_page(build_bridge(), settings=load_settings(tmp_path)) as server, server.read() as page:
        assert [call["id"] for call in (await page.read_state())["calls"]] == [5, 4, 3]


async def test_a_file_that_is_no_database_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database, but more than the hundred bytes of a header " * 9)
    with pytest.raises(ConfigError, match=r"bridge.json:1: http.page.history: .*notes.txt: file is not a database"):
        async with serve_page(build_bridge(), settings=load_settings(tmp_path, "notes.txt")):
            pass

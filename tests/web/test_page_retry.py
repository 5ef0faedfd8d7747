"""Operators let a source without a connection try again."""

from __future__ import annotations

import time

import anyio

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._contracts.source import Offer, Publish, Source, SourceState, SourceStatus
from tests.kits.http.http_hosting import build_registry, make_entry
from tests.kits.web.web_kit import serve_page


class Offline(Source):
    """A source that connects only when it is asked to try."""

    def __init__(self) -> None:
        super().__init__("offline")
        self._attempt = anyio.Event()
        self.state = SourceState.BROKEN

    @property
    def status(self) -> SourceStatus:
        return SourceStatus(state=self.state, since=time.time(), reason="it cannot be reached", failures=1)

    def request_attempt(self) -> None:
        self._attempt.set()

    async def run(self, publish: Publish) -> None:
        publish(Offer())
        await self._attempt.wait()
        self.state = SourceState.READY
        await anyio.sleep_forever()


async def test_an_operator_lets_a_source_try_again() -> None:
    bridge = Bridge(build_registry(make_entry("echo")), [AttachedSource(Offline())])
    async with serve_page(bridge) as server, server.read() as page, page.follow():
        state = await page.read_state()
        assert (state["sources"][0]["state"], state["can"]["retry"]) == ("broken", True)
        assert (await page.post("sources/offline", action="start")).status_code == 400
        assert (await page.post("sources/other", action="retry")).status_code == 404
        assert (await page.post("sources/offline", action="retry")).status_code == 200
        await page.wait_for("source", lambda source: source["state"] == "ready")


async def test_only_operators_let_a_source_try_again() -> None:
    bridge = Bridge(build_registry(make_entry("echo")), [AttachedSource(Offline())])
    async with serve_page(bridge, principals={"ann": "token-of-ann"}) as server, server.read("token-of-ann") as page:
        assert (await page.post("sources/offline", action="retry")).status_code == 403
        assert (await page.read_state())["can"]["retry"] is False

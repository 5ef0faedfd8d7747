"""The page of a server: its paths, who may use them, and the streams of those who look at it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import orjson
from anyio import to_thread

from mcp_bridge.server.requests import Session
from mcp_bridge.transports.http.event_stream import EventStream
from mcp_bridge.transports.http.request import HttpRequest
from mcp_bridge.web.call_rows import render_call, render_client
from mcp_bridge.web.feed import MAX_BACKLOG, EventFeed, OpenPage
from mcp_bridge.web.history import CallHistory
from mcp_bridge.web.monitor import ChangeMonitor
from mcp_bridge.web.state import ServerState
from mcp_bridge.web.static_files import FILES, SECURITY_HEADERS, StaticFiles
from mcp_bridge.web.subject import PageSubject
from mcp_bridge.web.viewer import Viewer, check_origin, identify_viewer

NO_STORE = ((b"cache-control", b"no-store"), *SECURITY_HEADERS)
PREFIX = "/page/"


class WebPage:
    """The page of a server, as the HTTP app serves it. Every call passes its history from now on."""

    def __init__(self, subject: PageSubject, *, files: StaticFiles | None = None) -> None:
        self._subject = subject
        self._files = files or StaticFiles()
        self.history = history = CallHistory()
        self.state = ServerState(subject, history)
        self.feed = EventFeed(partial(render_call, redactor=subject.redactor), self._set_watched)
        self._monitor = ChangeMonitor(self.state, self.feed)
        subject.endpoint.registry.pipeline.observer = history
        subject.endpoint.watch_sessions(self._add_session)

    def find_handler(self, path: str) -> Callable[[HttpRequest], Awaitable[None]] | None:
        """Return what serves a path below the root of the app, or None if the page has no such path."""
        if path in FILES:
            return partial(self._files.serve, path=path)
        routes = {"state": self._serve_state, "events": self._serve_events}
        if not path.startswith(PREFIX) or (serve := routes.get(path.removeprefix(PREFIX))) is None:
            return None
        return partial(self._serve_api, serve)

    def is_open(self, path: str) -> bool:
        """Whether a path needs no token: the files of the page."""
        return path in FILES

    def end_streams(self) -> None:
        """End the event streams."""
        self.feed.close()

    async def _serve_api(self, serve: Callable[[HttpRequest, Viewer], Awaitable[None]], request: HttpRequest) -> None:
        check_origin(request, self._subject.origins)
        await serve(request, identify_viewer(request, self._subject.operators))

    async def _serve_state(self, request: HttpRequest, viewer: Viewer) -> None:
        request.check_method("GET")
        state = self.state
        body: dict[str, Any] = {
            "server": state.summarize_server(),
            "sources": state.list_sources(),
            "clients": state.list_clients(viewer),
            "calls": state.list_calls(viewer),
            "latency": state.describe_latency(viewer),
            "settings": state.describe_settings() if viewer.is_operator else None,
            "lint": await to_thread.run_sync(state.list_findings),
            "audit": False,
        }
        await request.respond(200, orjson.dumps(body), NO_STORE)

    async def _serve_events(self, request: HttpRequest, viewer: Viewer) -> None:
        request.check_method("GET")
        events = EventStream(request, NO_STORE, backlog=MAX_BACKLOG)
        page = OpenPage(events, viewer)
        async with self.feed.connect_page(page, request.get_header(b"last-event-id")):
            await events.begin()
            await events.attend()

    def _set_watched(self, is_watched: bool) -> None:
        self.history.listener = self.feed.report_call if is_watched else None
        self._monitor.set_running(is_watched)

    def _add_session(self, session: Session) -> None:
        """Show a handshake client until it disconnects."""
        info, principal = session.client, session.principal
        row = self.history.find_client(info, principal, time.time())
        self.feed.send("client", render_client(row), principal=principal, is_public=False)
        session.on_end(partial(self._remove_session, session))

    def _remove_session(self, session: Session) -> None:
        row = self.history.remove_client(session.client, session.principal)
        if row is not None:
            data = {"id": row.id, "is_connected": False}
            self.feed.send("client", data, principal=session.principal, is_public=False)

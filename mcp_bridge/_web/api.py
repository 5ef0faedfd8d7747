"""The operator API of a server, and its page: finds the handler of a path, and checks what a viewer may do.

The web page, `mcp-bridge top` and the terminals that answer questions use this API (docs/page-api.md).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from mcp_bridge._contracts.observation import ClientInfo
from mcp_bridge._runtime.exact_json import load_json
from mcp_bridge._server.requests import Session
from mcp_bridge._transports.http.event_stream import EventStream
from mcp_bridge._transports.http.request import HttpRequest
from mcp_bridge._web.actions import NO_STORE, Action, PageActions, make_api_error, read_number
from mcp_bridge._web.call_rows import SavedCall, identify_client, render_call, render_call_details, render_client
from mcp_bridge._web.feed import MAX_BACKLOG, EventFeed, OpenPage, encode_json
from mcp_bridge._web.history import CallHistory, CallRecord, ClientRow
from mcp_bridge._web.inbox import Inbox
from mcp_bridge._web.state import SHOWN_CALLS, ChangeMonitor, ServerState
from mcp_bridge._web.static_files import FILES, StaticFiles
from mcp_bridge._web.subject import PageSubject
from mcp_bridge._web.viewer import Viewer, check_origin, identify_viewer

if TYPE_CHECKING:
    from mcp_bridge._web.history_file import HistoryFile

PREFIX = "/page/"
MAX_BODY = 256 * 1024
"""The maximum number of bytes in the body of a request."""
MAX_REPORTED = 10_000
"""The maximum number of clients of which this remembers that the open pages have received them."""
OBSERVER = b"role=observer"
"""The query of a stream that does not answer questions, so no question waits for it."""


class OperatorApi:
    """The operator API and the page of a server, which the HTTP app and the private socket serve.

    From its creation on, it observes every call of the server.
    """

    def __init__(self, subject: PageSubject) -> None:
        self._subject = subject
        self._files = StaticFiles()
        self._file: HistoryFile | None = None
        if subject.history_file is not None:
            # Most servers have no such file.
            from mcp_bridge._web.history_file import HistoryFile

            self._file = HistoryFile(subject.history_file, self._render_saved)
        self.history = history = CallHistory(self._file.last_id if self._file is not None else 0)
        if self._file is not None:
            history.on_end = self._file.add
        self._state = ServerState(subject, history)
        self.feed = EventFeed(partial(render_call, redactor=subject.redactor), self._set_watched)
        self._inbox = Inbox(subject.desk, self.feed, subject.redactor)
        self._monitor = ChangeMonitor(self._state, self.feed)
        self._reported_clients: set[tuple[ClientInfo, str | None]] = set()
        self._readers = {
            "server": self._serve_server,
            "state": self._serve_state,
            "events": self._serve_events,
            "audit": self._serve_audit,
        }
        self._actions = PageActions(subject, self._inbox, self._state)
        subject.endpoint.registry.pipeline.observe_calls(history)
        subject.endpoint.watch_sessions(self._add_session)
        if subject.options.asks_with_clients:
            subject.desk.asks_with_clients = True
            subject.endpoint.use_desk(subject.desk)

    def find_handler(self, path: str, viewer: Viewer | None = None) -> Callable[[HttpRequest], Awaitable[None]] | None:
        """Return the handler of a path below the root of the app, or None if there is no such path.

        `viewer` is the caller. If it is None, the handler identifies the caller by the headers of the request.
        """
        if path in FILES:
            return partial(self._files.serve, path=path)
        if not path.startswith(PREFIX):
            return None
        name, _, target = path.removeprefix(PREFIX).partition("/")
        if target and name in self._actions.table:
            return partial(self._serve_api, partial(self._serve_action, self._actions.table[name], target), viewer)
        if target and name == "calls":
            return partial(self._serve_api, partial(self._serve_call, target), viewer)
        if not target and name in self._readers:
            return partial(self._serve_api, self._readers[name], viewer)
        return None

    def is_open(self, path: str) -> bool:
        """Return whether a path needs no token: the files of the page."""
        return path in FILES

    def end_streams(self) -> None:
        """End the event streams, and save the latest calls."""
        self.feed.close()
        if self._file is not None:
            self._file.close()

    async def _serve_api(
        self,
        serve: Callable[[HttpRequest, Viewer], Awaitable[None]],
        viewer: Viewer | None,
        request: HttpRequest,
    ) -> None:
        if viewer is None:
            options = self._subject.options
            check_origin(request, options.origins)
            viewer = identify_viewer(request, options.operators, is_shared=options.is_shared)
        await serve(request, viewer)

    async def _serve_server(self, request: HttpRequest, viewer: Viewer) -> None:
        request.check_method("GET")
        await request.respond(200, encode_json(self._state.summarize_server(viewer)), NO_STORE)

    async def _serve_state(self, request: HttpRequest, viewer: Viewer) -> None:
        request.check_method("GET")
        state, inbox = self._state, self._inbox
        calls = await to_thread.run_sync(state.render_calls, state.select_calls(viewer))
        body: dict[str, Any] = {
            "server": state.summarize_server(viewer),
            "sources": [],
            "clients": state.list_clients(viewer),
            "calls": calls + self._list_saved(viewer),
            "latency": state.describe_latency(viewer),
            "questions": inbox.list_questions(viewer),
            "decisions": inbox.list_decisions(viewer),
            "owners": {},
            "quarantine": [],
            "settings": None,
            "lint": await to_thread.run_sync(state.list_findings),
            "installs": [],
            "audit": self._subject.audit_trail is not None,
            "can": {
                "answer": viewer.is_authenticated,
                "approve": viewer.is_authenticated,
                "quarantine": viewer.can_manage,
                "retry": viewer.can_manage,
                "dialect": viewer.can_manage and self._actions.dialect_setting is not None,
                "install": viewer.can_manage and self._actions.installations is not None,
            },
        }
        if viewer.is_operator:
            body["sources"] = state.list_sources()
            body["owners"] = state.list_owners()
            body["quarantine"] = state.list_pending()
            body["settings"] = state.describe_settings()
        if viewer.can_manage and self._actions.installations is not None:
            body["installs"] = await to_thread.run_sync(self._actions.installations.list_clients)
        await request.respond(200, encode_json(body), NO_STORE)

    async def _serve_call(self, target: str, request: HttpRequest, viewer: Viewer) -> None:
        """Respond with a call, its log messages, and for operators its exception."""
        request.check_method("GET")
        number = read_number(target)
        call: SavedCall | None = None
        if (record := self.history.find_record(number)) is not None:
            call = self._render_saved(record)
        elif self._file is not None:
            call = self._file.calls.get(number)
        if call is None or not viewer.can_see(call.row["principal"]):
            raise make_api_error(404, "not_found", "This call is no longer kept.")
        body = call.row | call.details
        if not viewer.is_operator:
            body["exception"] = None
        await request.respond(200, encode_json(body), NO_STORE)

    async def _serve_events(self, request: HttpRequest, viewer: Viewer) -> None:
        request.check_method("GET")
        events = EventStream(request, NO_STORE, backlog=MAX_BACKLOG)
        async with AsyncExitStack() as stack:
            page = OpenPage(events, viewer)
            await stack.enter_async_context(self.feed.connect_page(page, request.get_header(b"last-event-id")))
            if request.scope["query_string"] != OBSERVER:
                stack.enter_context(self._inbox.connect_viewer(viewer))
            await events.begin()
            await events.attend()

    async def _serve_audit(self, request: HttpRequest, viewer: Viewer) -> None:
        """Respond with records of the audit trail; viewers who are not operators get those of their principal."""
        request.check_method("GET")
        path = self._subject.audit_trail
        if path is None:
            raise make_api_error(404, "not_found", "This server has no audit trail. Add the policy `audit`.")
        # Most servers have no audit trail.
        from mcp_bridge._web.audit import read_records

        query = request.scope["query_string"].decode("ascii", "replace")
        try:
            page = await to_thread.run_sync(read_records, path, query, viewer)
        except ValueError as error:
            raise make_api_error(400, "invalid", str(error)) from None
        except OSError as error:
            raise make_api_error(503, "unavailable", self._subject.redactor.redact_text(str(error))) from None
        await request.respond(200, encode_json(self._subject.redactor.redact_value(page)), NO_STORE)

    async def _serve_action(self, act: Action, target: str, request: HttpRequest, viewer: Viewer) -> None:
        request.check_method("POST")
        request.check_content_type()
        if not viewer.is_authenticated:
            message = "This server requires no token, so its page is read-only. Set http.token_env."
            raise make_api_error(403, "forbidden", message)
        data = await request.read_body(MAX_BODY)
        try:
            body = load_json(data)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise make_api_error(400, "invalid", "The body must be a JSON object.")
        await request.respond(200, encode_json(await act(viewer, target, body)), NO_STORE)

    def _render_saved(self, record: CallRecord) -> SavedCall:
        redactor = self._subject.redactor
        return SavedCall(render_call(record, redactor), render_call_details(record, redactor))

    def _list_saved(self, viewer: Viewer) -> list[dict[str, Any]]:
        """List the latest calls of earlier processes, the latest first."""
        if self._file is None:
            return []
        rows = [call.row for call in self._file.calls.values() if viewer.can_see(call.row["principal"])]
        return rows[: -SHOWN_CALLS - 1 : -1]

    def _set_watched(self, is_watched: bool) -> None:
        self.history.set_listener(self._report_call if is_watched else None)
        self._reported_clients = {(row.info, row.principal) for row in self.history.list_clients()}
        self._monitor.set_running(is_watched)

    def _report_call(self, record: CallRecord) -> None:
        """Send a call soon. If the pages have not received its client yet, send the client first."""
        key = record.client, record.principal
        if key not in self._reported_clients:
            # Clients can invent any number of names.
            if len(self._reported_clients) >= MAX_REPORTED:
                self._reported_clients.clear()
            self._reported_clients.add(key)
            self._send_client(render_client(ClientRow(*key, record.started)), record.principal)
        self.feed.report_call(record)

    def _add_session(self, session: Session) -> None:
        """Show a handshake client until it disconnects."""
        client, principal = session.client, session.principal
        self._reported_clients.add((client, principal))
        self._send_client(render_client(self.history.add_client(client, principal)), principal)
        session.on_end(partial(self._remove_session, session))

    def _remove_session(self, session: Session) -> None:
        client, principal = session.client, session.principal
        self.history.remove_client(client, principal)
        self._reported_clients.discard((client, principal))
        self._send_client({"id": identify_client(client, principal), "is_connected": False}, principal)

    def _send_client(self, row: dict[str, Any], principal: str | None) -> None:
        self.feed.send("client", self._subject.redactor.redact_value(row), principal=principal, is_public=False)

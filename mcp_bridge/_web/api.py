"""The operator API of a server, and its page: finds the handler of a path, and checks what a viewer may do.

The web page, `mcp-bridge top` and the terminals that answer questions use this API (docs/page-api.md).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import cached_property, partial
from typing import Any

from anyio import to_thread

from mcp_bridge._contracts.errors import BridgeError
from mcp_bridge._contracts.observation import ClientInfo
from mcp_bridge._runtime.exact_json import dump_json, load_json
from mcp_bridge._server.requests import Session
from mcp_bridge._transports.http.event_stream import EventStream
from mcp_bridge._transports.http.request import HttpRejection, HttpRequest
from mcp_bridge._web.call_rows import identify_client, render_call, render_client
from mcp_bridge._web.feed import MAX_BACKLOG, EventFeed, OpenPage, encode_json
from mcp_bridge._web.history import CallHistory, CallRecord, ClientRow
from mcp_bridge._web.inbox import Inbox
from mcp_bridge._web.installs import Installations, PlanChanged
from mcp_bridge._web.state import ChangeMonitor, ServerState
from mcp_bridge._web.static_files import FILES, SECURITY_HEADERS, StaticFiles
from mcp_bridge._web.subject import PageSubject
from mcp_bridge._web.viewer import Viewer, check_origin, identify_viewer

NO_STORE = ((b"cache-control", b"no-store"), *SECURITY_HEADERS)
PREFIX = "/page/"
MAX_BODY = 256 * 1024
"""The maximum number of bytes in the body of a request."""
MAX_REPORTED = 10_000
"""The maximum number of clients of which this remembers that the open pages have received them."""
OBSERVER = b"role=observer"
"""The query of a stream that does not answer questions, so no question waits for it."""

Action = Callable[[Viewer, str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Performs the action of a POST request. The text is the path after the name of the action. Raises HttpRejection."""


class OperatorApi:
    """The operator API and the page of a server, which the HTTP app and the private socket serve.

    From its creation on, it observes every call of the server.
    """

    def __init__(self, subject: PageSubject) -> None:
        self._subject = subject
        self._files = StaticFiles()
        self.history = history = CallHistory()
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
        self._actions: dict[str, Action] = {
            "questions": self._answer_question,
            "quarantine": self._accept_definition,
            "installs": self._install,
        }
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
        if target and name in self._actions:
            return partial(self._serve_api, partial(self._serve_action, self._actions[name], target), viewer)
        if not target and name in self._readers:
            return partial(self._serve_api, self._readers[name], viewer)
        return None

    def is_open(self, path: str) -> bool:
        """Return whether a path needs no token: the files of the page."""
        return path in FILES

    def end_streams(self) -> None:
        """End the event streams."""
        self.feed.close()

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
        body: dict[str, Any] = {
            "server": state.summarize_server(viewer),
            "sources": [],
            "clients": state.list_clients(viewer),
            "calls": await to_thread.run_sync(state.render_calls, state.select_calls(viewer)),
            "latency": state.describe_latency(viewer),
            "questions": inbox.list_questions(viewer),
            "decisions": inbox.list_decisions(viewer),
            "quarantine": [],
            "settings": None,
            "lint": await to_thread.run_sync(state.list_findings),
            "installs": [],
            "audit": self._subject.audit_trail is not None,
            "can": {
                "answer": viewer.is_authenticated,
                "approve": viewer.is_authenticated,
                "quarantine": viewer.can_manage,
                "install": viewer.can_manage and self._installations is not None,
            },
        }
        if viewer.is_operator:
            body["sources"] = state.list_sources()
            body["quarantine"] = state.list_pending()
            body["settings"] = state.describe_settings()
        if viewer.can_manage and self._installations is not None:
            body["installs"] = await to_thread.run_sync(self._installations.list_clients)
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
            raise _make_api_error(404, "not_found", "This server has no audit trail. Add the policy `audit`.")
        # Most servers have no audit trail.
        from mcp_bridge._web.audit import read_records

        query = request.scope["query_string"].decode("ascii", "replace")
        try:
            page = await to_thread.run_sync(read_records, path, query, viewer)
        except ValueError as error:
            raise _make_api_error(400, "invalid", str(error)) from None
        except OSError as error:
            raise _make_api_error(503, "unavailable", self._subject.redactor.redact_text(str(error))) from None
        await request.respond(200, encode_json(self._subject.redactor.redact_value(page)), NO_STORE)

    async def _serve_action(self, act: Action, target: str, request: HttpRequest, viewer: Viewer) -> None:
        request.check_method("POST")
        request.check_content_type()
        if not viewer.is_authenticated:
            message = "This server requires no token, so its page is read-only. Set http.token_env."
            raise _make_api_error(403, "forbidden", message)
        data = await request.read_body(MAX_BODY)
        try:
            body = load_json(data)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise _make_api_error(400, "invalid", "The body must be a JSON object.")
        await request.respond(200, encode_json(await act(viewer, target, body)), NO_STORE)

    async def _answer_question(self, viewer: Viewer, target: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        text = target.partition("/")[0]
        # No question has the number -1. `int` rejects texts with thousands of digits.
        number = -1
        if text.isdecimal() and len(text) < 16:
            number = int(text)
        try:
            self._inbox.answer_question(viewer, number, body)
        except LookupError as error:
            raise _make_api_error(404, "not_found", str(error)) from None
        except ValueError as error:
            raise _make_api_error(400, "invalid", f"This answer is not valid: {error}") from None
        return {"answered": True}

    async def _accept_definition(self, viewer: Viewer, target: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        _check_manager(viewer)
        # The name may be the URI of a resource, with slashes.
        source, separator, name = target.partition("/")
        fingerprint = body.get("fingerprint")
        if body.get("action") != "accept" or not isinstance(fingerprint, str) or not separator:
            raise _make_api_error(400, "invalid", "Send {action: accept, fingerprint} to /page/quarantine/SOURCE/TOOL.")
        from mcp_bridge._web.quarantine import accept_definition

        try:
            await accept_definition(self._subject.sources, source, name, fingerprint)
        except LookupError as error:
            raise _make_api_error(409, "conflict", str(error)) from None
        except BridgeError as error:
            raise _make_api_error(500, "failed", self._subject.redactor.redact_text(str(error))) from None
        return {"accepted": True}

    async def _install(self, viewer: Viewer, target: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        _check_manager(viewer)
        installs, client = self._installations, target.partition("/")[0]
        if installs is None:
            raise _make_api_error(403, "forbidden", "This server cannot be installed from its page.")
        try:
            if body.get("apply") is not True:
                return await to_thread.run_sync(installs.show_change, client)
            return await to_thread.run_sync(installs.apply_change, client, str(body.get("digest")))
        except LookupError as error:
            raise _make_api_error(404, "not_found", str(error)) from None
        except PlanChanged:
            message = "The file of the client has changed since the change was shown. Read it again."
            raise _make_api_error(409, "conflict", message) from None
        except (BridgeError, OSError) as error:
            raise _make_api_error(409, "conflict", self._subject.redactor.redact_text(str(error))) from None

    @cached_property
    def _installations(self) -> Installations | None:
        build_entry = self._subject.options.build_entry
        return Installations(build_entry) if build_entry is not None else None

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


def _check_manager(viewer: Viewer) -> None:
    if not viewer.can_manage:
        message = "Only operators may do this. The settings list them in http.page.operators."
        raise _make_api_error(403, "forbidden", message)


def _make_api_error(status: int, code: str, message: str) -> HttpRejection:
    return HttpRejection(status, dump_json({"error": {"code": code, "message": message}}), NO_STORE)

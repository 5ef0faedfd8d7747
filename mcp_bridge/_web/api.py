"""The operator API of a server, and its page: their paths, and what each viewer may see and do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
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
"""The maximum number of clients that are remembered as known to the open pages."""
OBSERVER = b"role=observer"
"""The query of a stream that does not answer questions, so no question waits for it."""

Action = Callable[[Viewer, list[str], Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Performs the action of a POST request. The list contains the rest of the path. Raises HttpRejection."""


class OperatorApi:
    """The operator API and the page of a server, as the HTTP app and the private socket serve them.

    From its creation on, it observes every call of the server.
    """

    def __init__(self, subject: PageSubject, *, files: StaticFiles | None = None) -> None:
        self._subject = subject
        self._files = files or StaticFiles()
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
        if subject.asks_beside_clients:
            subject.desk.is_beside_clients = True
            subject.endpoint.use_desk(subject.desk)

    def find_handler(self, path: str, viewer: Viewer | None = None) -> Callable[[HttpRequest], Awaitable[None]] | None:
        """Return the handler of a path below the root of the app, or None if there is no such path.

        `viewer` is the caller; if it is None, the request identifies it.
        """
        if path in FILES:
            return partial(self._files.serve, path=path)
        if not path.startswith(PREFIX):
            return None
        name, _, rest = path.removeprefix(PREFIX).partition("/")
        if name in self._actions and rest:
            return partial(self._serve_api, partial(self._serve_action, self._actions[name], rest), viewer)
        serve = self._readers.get(name)
        return partial(self._serve_api, serve, viewer) if serve is not None and not rest else None

    def is_open(self, path: str) -> bool:
        """Whether a path needs no token: the files of the page."""
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
            check_origin(request, self._subject.origins)
            viewer = identify_viewer(request, self._subject.operators, is_shared=self._subject.is_shared)
        await serve(request, viewer)

    async def _serve_server(self, request: HttpRequest, viewer: Viewer) -> None:
        request.check_method("GET")
        await request.respond(200, encode_json(self._state.summarize_server(viewer)), NO_STORE)

    async def _serve_state(self, request: HttpRequest, viewer: Viewer) -> None:
        request.check_method("GET")
        state, inbox = self._state, self._inbox
        can_install = viewer.can_manage and self._installations is not None
        calls = await to_thread.run_sync(state.render_calls, state.select_calls(viewer))
        lint = await to_thread.run_sync(state.list_findings)
        installs: list[dict[str, Any]] = []
        if can_install and self._installations is not None:
            installs = await to_thread.run_sync(self._installations.list_clients)
        body: dict[str, Any] = {
            "server": state.summarize_server(viewer),
            "sources": state.list_sources() if viewer.is_operator else [],
            "clients": state.list_clients(viewer),
            "calls": calls,
            "latency": state.describe_latency(viewer),
            "questions": inbox.list_questions(viewer),
            "decisions": inbox.list_decisions(viewer),
            "quarantine": state.list_pending() if viewer.is_operator else [],
            "settings": state.describe_settings() if viewer.is_operator else None,
            "lint": lint,
            "installs": installs,
            "audit": self._subject.audit_trail is not None,
            "can": {
                "answer": viewer.is_authenticated,
                "approve": viewer.is_authenticated,
                "quarantine": viewer.can_manage,
                "install": can_install,
            },
        }
        await request.respond(200, encode_json(body), NO_STORE)

    async def _serve_events(self, request: HttpRequest, viewer: Viewer) -> None:
        request.check_method("GET")
        events = EventStream(request, NO_STORE, backlog=MAX_BACKLOG)
        page = OpenPage(events, viewer)
        is_observer = request.scope["query_string"] == OBSERVER
        answering = nullcontext() if is_observer else self._inbox.connect_viewer(viewer)
        async with self.feed.connect_page(page, request.get_header(b"last-event-id")):
            with answering:
                await events.begin()
                await events.attend()

    async def _serve_audit(self, request: HttpRequest, viewer: Viewer) -> None:
        """Respond with records of the audit trail; viewers who are not operators get their own."""
        request.check_method("GET")
        if (path := self._subject.audit_trail) is None:
            raise _make_api_error(404, "not_found", "This server has no audit trail. Add the policy `audit`.")
        from mcp_bridge._web.audit import read_records  # most servers have none

        query = request.scope["query_string"].decode("ascii", "replace")
        try:
            page = await to_thread.run_sync(read_records, path, query, viewer)
        except ValueError as error:
            raise _make_api_error(400, "invalid", str(error)) from None
        except OSError as error:
            raise _make_api_error(503, "unavailable", self._subject.redactor.redact_text(str(error))) from None
        await request.respond(200, encode_json(self._subject.redactor.redact_value(page)), NO_STORE)

    async def _serve_action(self, act: Action, rest: str, request: HttpRequest, viewer: Viewer) -> None:
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
        await request.respond(200, encode_json(await act(viewer, rest.split("/", 1), body)), NO_STORE)

    async def _answer_question(self, viewer: Viewer, rest: list[str], body: Mapping[str, Any]) -> Mapping[str, Any]:
        number = int(rest[0]) if rest[0].isdecimal() and len(rest[0]) < 16 else -1
        try:
            self._inbox.answer_question(viewer, number, body)
        except LookupError as error:
            raise _make_api_error(404, "not_found", str(error)) from None
        except ValueError as error:
            raise _make_api_error(400, "invalid", f"This answer is not valid: {error}") from None
        return {"answered": True}

    async def _accept_definition(self, viewer: Viewer, rest: list[str], body: Mapping[str, Any]) -> Mapping[str, Any]:
        _check_manager(viewer)
        fingerprint = body.get("fingerprint")
        if body.get("action") != "accept" or not isinstance(fingerprint, str) or len(rest) < 2:
            raise _make_api_error(400, "invalid", "Send {action: accept, fingerprint} to /page/quarantine/SOURCE/TOOL.")
        from mcp_bridge._web.quarantine import accept_definition

        try:
            # The name of a resource is a URI with slashes.
            await accept_definition(self._subject.sources, rest[0], "/".join(rest[1:]), fingerprint)
        except LookupError as error:
            raise _make_api_error(409, "conflict", str(error)) from None
        except BridgeError as error:
            raise _make_api_error(500, "failed", self._subject.redactor.redact_text(str(error))) from None
        return {"accepted": True}

    async def _install(self, viewer: Viewer, rest: list[str], body: Mapping[str, Any]) -> Mapping[str, Any]:
        _check_manager(viewer)
        installs, digest = self._installations, body.get("digest")
        if installs is None:
            raise _make_api_error(403, "forbidden", "This server cannot be installed from its page.")
        try:
            if body.get("apply") is not True:
                return await to_thread.run_sync(installs.show_change, rest[0])
            return await to_thread.run_sync(installs.apply_change, rest[0], str(digest))
        except LookupError as error:
            raise _make_api_error(404, "not_found", str(error)) from None
        except PlanChanged:
            message = "The file of the client has changed since the change was shown. Read it again."
            raise _make_api_error(409, "conflict", message) from None
        except (BridgeError, OSError) as error:
            raise _make_api_error(409, "conflict", self._subject.redactor.redact_text(str(error))) from None

    @cached_property
    def _installations(self) -> Installations | None:
        build = self._subject.build_entry
        return Installations(build) if build is not None else None

    def _set_watched(self, is_watched: bool) -> None:
        self.history.set_listener(self._report_call if is_watched else None)
        self._reported_clients = {(row.info, row.principal) for row in self.history.list_clients()}
        self._monitor.set_running(is_watched)

    def _report_call(self, record: CallRecord) -> None:
        """Send a call soon, after its client if the pages do not know it yet."""
        if (key := (record.client, record.principal)) not in self._reported_clients:
            if len(self._reported_clients) >= MAX_REPORTED:  # clients can make up any number of names
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

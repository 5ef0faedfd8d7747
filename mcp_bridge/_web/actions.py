"""The actions of the operator API: answers to questions, accepted definitions, new attempts, and installations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from mcp_bridge._contracts.errors import BridgeError
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._transports.http.request import HttpRejection
from mcp_bridge._web.inbox import Inbox
from mcp_bridge._web.installs import Installations, PlanChanged
from mcp_bridge._web.state import ServerState
from mcp_bridge._web.static_files import SECURITY_HEADERS
from mcp_bridge._web.subject import PageSubject
from mcp_bridge._web.viewer import Viewer

if TYPE_CHECKING:
    from mcp_bridge._web.dialect_setting import DialectSetting

NO_STORE = ((b"cache-control", b"no-store"), *SECURITY_HEADERS)

Action = Callable[[Viewer, str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Performs the action of a POST request. The text is the path after the name of the action. Raises HttpRejection."""


class PageActions:
    """What viewers can do. `table` has the action of each path."""

    def __init__(self, subject: PageSubject, inbox: Inbox, state: ServerState) -> None:
        self._subject = subject
        self._inbox = inbox
        self._state = state
        self.table: dict[str, Action] = {
            "questions": self._answer_question,
            "quarantine": self._accept_definition,
            "installs": self._install,
            "sources": self._retry_source,
            "dialects": self._set_dialect,
        }

    async def _answer_question(self, viewer: Viewer, target: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        number = read_number(target.partition("/")[0])
        try:
            self._inbox.answer_question(viewer, number, body)
        except LookupError as error:
            raise make_api_error(404, "not_found", str(error)) from None
        except ValueError as error:
            raise make_api_error(400, "invalid", f"This answer is not valid: {error}") from None
        return {"answered": True}

    async def _accept_definition(self, viewer: Viewer, target: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        _check_manager(viewer)
        # The name may be the URI of a resource, with slashes.
        source, separator, name = target.partition("/")
        fingerprint = body.get("fingerprint")
        if body.get("action") != "accept" or not isinstance(fingerprint, str) or not separator:
            raise make_api_error(400, "invalid", "Send {action: accept, fingerprint} to /page/quarantine/SOURCE/TOOL.")
        from mcp_bridge._web.quarantine import accept_definition

        try:
            await accept_definition(self._subject.sources, source, name, fingerprint)
        except LookupError as error:
            raise make_api_error(409, "conflict", str(error)) from None
        except BridgeError as error:
            raise make_api_error(500, "failed", self._subject.redactor.redact_text(str(error))) from None
        return {"accepted": True}

    async def _retry_source(self, viewer: Viewer, target: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        _check_manager(viewer)
        sources = {source.name: source for source in self._subject.sources if source.status is not None}
        if body.get("action") != "retry":
            raise make_api_error(400, "invalid", "Send {action: retry} to /page/sources/NAME.")
        if target not in sources:
            raise make_api_error(404, "not_found", "No source with a connection has this name.")
        sources[target].request_attempt()
        return {"requested": True}

    async def _install(self, viewer: Viewer, target: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        _check_manager(viewer)
        installs, client = self.installations, target.partition("/")[0]
        if installs is None:
            raise make_api_error(403, "forbidden", "This server cannot be installed from its page.")
        try:
            if body.get("apply") is not True:
                return await to_thread.run_sync(installs.show_change, client)
            return await to_thread.run_sync(installs.apply_change, client, str(body.get("digest")))
        except LookupError as error:
            raise make_api_error(404, "not_found", str(error)) from None
        except PlanChanged:
            message = "The file of the client has changed since the change was shown. Read it again."
            raise make_api_error(409, "conflict", message) from None
        except (BridgeError, OSError) as error:
            raise make_api_error(409, "conflict", self._subject.redactor.redact_text(str(error))) from None

    async def _set_dialect(self, viewer: Viewer, target: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add a client to the dialects in the settings file, as the linter advises."""
        _check_manager(viewer)
        setting = self.dialect_setting
        if setting is None:
            raise make_api_error(403, "forbidden", "This server has no settings file.")
        findings = await to_thread.run_sync(self._state.list_findings)
        if target not in [finding["dialect"] for finding in findings]:
            raise make_api_error(404, "not_found", "The linter does not advise the dialect of this client.")
        try:
            if body.get("apply") is not True:
                return await to_thread.run_sync(setting.show_change, target)
            return await to_thread.run_sync(setting.apply_change, target, str(body.get("digest")))
        except PlanChanged:
            message = "The settings file has changed since the change was shown. Read it again."
            raise make_api_error(409, "conflict", message) from None
        except (BridgeError, OSError) as error:
            raise make_api_error(409, "conflict", self._subject.redactor.redact_text(str(error))) from None

    @cached_property
    def dialect_setting(self) -> DialectSetting | None:
        """The setting `dialect` in the settings file; None without such a file."""
        settings = self._subject.settings
        if settings is None or not settings.path.is_file():
            return None
        # Only this change needs the editor of settings files.
        from mcp_bridge._web.dialect_setting import DialectSetting

        return DialectSetting(settings.path)

    @cached_property
    def installations(self) -> Installations | None:
        """The clients into which this server can be installed; None if it cannot."""
        build_entry = self._subject.options.build_entry
        return Installations(build_entry) if build_entry is not None else None


def read_number(text: str) -> int:
    """Return the number in a path, or -1, which no call and no question has."""
    # `int` rejects texts with thousands of digits.
    if text.isdecimal() and len(text) < 16:
        return int(text)
    return -1


def _check_manager(viewer: Viewer) -> None:
    if not viewer.can_manage:
        message = "Only operators may do this. The settings list them in http.page.operators."
        raise make_api_error(403, "forbidden", message)


def make_api_error(status: int, code: str, message: str) -> HttpRejection:
    return HttpRejection(status, dump_json({"error": {"code": code, "message": message}}), NO_STORE)

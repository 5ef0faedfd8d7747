"""The callers of the operator API, what they may see and do, and which requests come from the page itself."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from mcp_bridge._policies.approvals.desk import Channel, OpenQuestion
from mcp_bridge._transports.http.request import HttpRejection, HttpRequest, make_rejection

_OWN_SITES = ("same-origin", "none")
"""Accepted values of Sec-Fetch-Site: requests from the page itself, or from the address bar (W3C Fetch Metadata)."""


class Viewer(NamedTuple):
    """A caller of the operator API, and an approver (see `Approver`) while their event stream is open.

    An operator sees everything; any other caller sees the calls of their own principal. `is_authenticated` is whether
    the caller has shown who they are: without that, no caller can act.
    """

    principal: str | None
    is_operator: bool
    is_authenticated: bool
    channel: Channel = "page"

    @property
    def user(self) -> str:
        """The principal of the user; empty if it is unknown."""
        return self.principal or ""

    @property
    def can_manage(self) -> bool:
        """Whether the viewer may accept definitions and install the server."""
        return self.is_authenticated and self.is_operator

    def can_see(self, principal: str | None) -> bool:
        """Whether the viewer sees what belongs to this principal."""
        return self.is_operator or (principal is not None and principal == self.principal)

    def can_answer(self, question: OpenQuestion) -> bool:
        """Whether a question waits for the viewer: terminals show no forms."""
        is_shown = self.channel == "page" or bool(question.scopes)
        return is_shown and self.is_authenticated and self.can_see(question.principal)


LOCAL_OPERATOR = Viewer(principal=None, is_operator=True, is_authenticated=True, channel="terminal")
"""The user that runs the server, who is connected to its private socket."""


def identify_viewer(request: HttpRequest, operators: Set[str], *, is_shared: bool = False) -> Viewer:
    """Return the caller: an operator if the settings name its principal, or if it has none and no other caller has.

    `is_shared` is whether callers have principals. Then a token without one is one of several, and not the operator's.
    """
    principal = request.read_principal()
    return Viewer(
        principal=principal,
        is_operator=principal in operators if principal is not None else not is_shared,
        is_authenticated=request.caller is not None,
    )


def check_origin(request: HttpRequest, origins: Set[str]) -> None:
    """Raise HttpRejection for a request of another site or port, unless it is one of `origins`.

    MCP itself accepts pages of the same host at any port; what the page can see and do is more than that.
    """
    origin = request.get_header(b"origin")
    if origin is not None and origin.lower() in origins:
        return
    host = (request.get_header(b"host") or "").lower()
    if origin is not None and origin.lower().partition("://")[2] != host:
        raise _make_origin_error()
    if (request.get_header(b"sec-fetch-site") or "none") not in _OWN_SITES:
        raise _make_origin_error()


def _make_origin_error() -> HttpRejection:
    return make_rejection(403, "Only the page of this server may do this. Add others to http.allowed_origins.")

"""The callers of the operator API, their rights, and the check that a request comes from the page itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from mcp_bridge._policies.approvals.desk import Channel, OpenQuestion
from mcp_bridge._transports.http.request import HttpRequest, make_rejection

_OWN_SITES = ("same-origin", "none")
"""Accepted values of Sec-Fetch-Site: requests from the page itself, or from the address bar (W3C Fetch Metadata)."""


class Viewer(NamedTuple):
    """A caller of the operator API, and an approver (see `Approver`) while their event stream is open.

    An operator sees everything; any other caller sees the calls of their principal. Without `is_authenticated`, a
    caller can only read.
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
        """Return whether the viewer sees calls and questions of this principal."""
        return self.is_operator or (principal is not None and principal == self.principal)

    def can_answer(self, question: OpenQuestion) -> bool:
        """Return whether a question waits for the viewer: terminals show no forms."""
        is_shown = self.channel == "page" or bool(question.scopes)
        return is_shown and self.is_authenticated and self.can_see(question.principal)


LOCAL_OPERATOR = Viewer(principal=None, is_operator=True, is_authenticated=True, channel="terminal")
"""The user who runs the server, at its private socket."""


def identify_viewer(request: HttpRequest, operators: Collection[str], *, is_shared: bool) -> Viewer:
    """Return the caller: an operator if the settings name its principal, or if no caller has a principal.

    `is_shared` is whether callers have principals. If they have, a caller without one is not an operator.
    """
    principal = request.read_principal()
    if principal is None:
        is_operator = not is_shared
    else:
        is_operator = principal in operators
    return Viewer(principal=principal, is_operator=is_operator, is_authenticated=request.caller is not None)


def check_origin(request: HttpRequest, origins: Iterable[str]) -> None:
    """Raise HttpRejection for a request of another site or port, unless its origin is one of `origins`.

    `/mcp` accepts pages of the same host at any port. The operator API can do more, so it accepts only its own page.
    """
    origin = (request.get_header(b"origin") or "").lower()
    if origin and origin in [allowed_origin.lower().rstrip("/") for allowed_origin in origins]:
        return
    host = (request.get_header(b"host") or "").lower()
    is_same_origin = not origin or origin.partition("://")[2] == host
    if not is_same_origin or (request.get_header(b"sec-fetch-site") or "none") not in _OWN_SITES:
        raise make_rejection(403, "Only the page of this server may do this. Add others to http.allowed_origins.")

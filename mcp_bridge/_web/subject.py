"""The server for the operator API, with its sources and settings. `_app/operator_api.py` builds it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_bridge._contracts.identity import Identity
from mcp_bridge._contracts.source import Source
from mcp_bridge._policies.approvals.desk import QuestionDesk
from mcp_bridge._protocol.dialects.dialect import SchemaDialect
from mcp_bridge._runtime.redaction import Redactor

if TYPE_CHECKING:
    from mcp_bridge._desktop.client import ServerEntry
    from mcp_bridge._server.endpoint import Endpoint
    from mcp_bridge._settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """Who uses the operator API, and what for.

    Attributes:
        asks_with_clients: Whether users of the page are asked even if the client can ask, and are asked for forms
            too. If false, there is no page, and users at terminals are asked only what clients cannot ask.
        origins: Origins of other sites that may use the API.
        operators: The principals that see everything.
        is_shared: Whether callers have principals. If they have none, they all see everything.
        build_entry: Builds the entry of this server for a client, and returns the file that it serves; None if it
            cannot be installed.
    """

    asks_with_clients: bool = True
    origins: Collection[str] = ()
    operators: Collection[str] = ()
    is_shared: bool = False
    build_entry: Callable[[], tuple[ServerEntry, str]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSubject:
    """The server that the operator API shows.

    Attributes:
        get_identity: Returns how the server presents itself now.
        describe_sources: Returns the state of each source, as `bridge://status` does.
        types: The type of each source, by name.
        desk: Asks users on the page and in terminals.
        redactor: Redacts everything that pages receive.
        audit_trail: The file of the audit trail; None if the server has none.
        history_file: The file that keeps calls after the end of the process; None if only memory does.
        file: The file that the server serves.
        count_connected: Returns how many clients are connected to a shared server.
    """

    endpoint: Endpoint
    get_identity: Callable[[], Identity]
    describe_sources: Callable[[], Sequence[Mapping[str, Any]]]
    sources: Sequence[Source]
    types: Mapping[str, str]
    dialect: SchemaDialect
    desk: QuestionDesk
    redactor: Redactor
    settings: Settings | None
    audit_trail: Path | None
    history_file: Path | None
    file: str | None
    count_connected: Callable[[], int | None]
    options: PageOptions

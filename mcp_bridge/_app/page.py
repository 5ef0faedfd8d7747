"""Builds the web page of a bridge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mcp_bridge._app.audit_trail import find_audit_trail
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._policies.approvals.desk import QuestionDesk
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._web.page import WebPage
from mcp_bridge._web.subject import PageSubject

if TYPE_CHECKING:
    from mcp_bridge._desktop.client import ServerEntry
    from mcp_bridge._settings import Settings


def build_page(
    bridge: Bridge,
    settings: Settings | None = None,
    *,
    origins: Iterable[str] = (),
    operators: Iterable[str] = (),
    is_shared: bool = False,
    build_entry: Callable[[], tuple[ServerEntry, str]] | None = None,
) -> WebPage:
    """Build the page of a bridge that has served no call yet; see `PageSubject` for the arguments."""
    redactor = Redactor(bridge.secrets)
    bridge.add_secret_listener(redactor.add_secrets)
    for substitute in bridge.registry.pipeline.redactor.substitutions:  # those of the policy `redact`
        redactor.add_substitution(substitute)
    types = {source.name: "python" for source in bridge.sources}
    if settings is not None:
        redactor.add_secrets(settings.secrets)
        types = dict.fromkeys(types, "chains")  # the source that follows those of the settings
        types |= {one.name: entry.type for one, entry in zip(bridge.sources, settings.sources, strict=False)}
    trail = find_audit_trail(settings) if settings is not None else None
    return WebPage(
        PageSubject(
            endpoint=bridge.endpoint,
            get_identity=lambda: bridge.identity,
            describe_sources=bridge.status.describe_sources,
            sources=bridge.sources,
            types=types,
            dialect=bridge.dialect,
            desk=bridge.desk or QuestionDesk(ttl=bridge.state.ttl, redactor=redactor),
            redactor=redactor,
            settings=settings,
            origins=frozenset(origin.lower().rstrip("/") for origin in origins),
            operators=frozenset(operators),
            is_shared=is_shared,
            audit_trail=trail.path if trail is not None else None,
            build_entry=build_entry,
        )
    )

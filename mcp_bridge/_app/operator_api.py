"""Builds the operator API of a bridge, for its page, its private socket and its port."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.policies import find_audit_trail
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._policies.approvals.desk import QuestionDesk
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._web.api import OperatorApi
from mcp_bridge._web.subject import PageOptions, PageSubject

if TYPE_CHECKING:
    from mcp_bridge._settings import Settings


def build_operator_api(
    bridge: Bridge, settings: Settings | None, options: PageOptions, file: str | None = None
) -> OperatorApi:
    """Build the operator API of a bridge, and set `bridge.operator_api`. It observes all later calls.

    Raises ConfigError if the file of the history cannot be used.
    """
    redactor = Redactor(bridge.secrets)
    bridge.add_secret_listener(redactor.add_secrets)
    # These are the patterns of the policy `redact`.
    for substitute in bridge.registry.pipeline.redactor.substitutions:
        redactor.add_substitution(substitute)
    types = {source.name: "python" for source in bridge.sources}
    if settings is not None:
        redactor.add_secrets(settings.secrets)
        # The sources have the order of the settings, and only the source of the chains follows them.
        types = dict.fromkeys(types, "chains")
        for source, source_settings in zip(bridge.sources, settings.sources, strict=False):
            types[source.name] = source_settings.type
        if file is None and settings.path.is_file():
            file = str(settings.path)
    trail = find_audit_trail(settings) if settings is not None else None
    history_file = None
    if settings is not None and settings.http.page is not None and settings.http.page.history is not None:
        history_file = settings.directory / Path(settings.http.page.history).expanduser()
    subject = PageSubject(
        endpoint=bridge.endpoint,
        get_identity=lambda: bridge.identity,
        describe_sources=bridge.status.describe_sources,
        sources=bridge.sources,
        types=types,
        dialect=bridge.dialect,
        desk=bridge.desk or QuestionDesk(ttl=bridge.state.ttl, redactor=redactor),
        redactor=redactor,
        settings=settings,
        audit_trail=trail.path if trail is not None else None,
        history_file=history_file,
        file=file,
        count_connected=lambda: bridge.count_connected(),  # noqa: PLW0108 - the attribute is set later
        options=options,
    )
    try:
        bridge.operator_api = OperatorApi(subject)
    except (OSError, sqlite3.Error) as error:
        assert settings is not None
        problem = ConfigError(f"{history_file}: {error}", hint="Use the path of a SQLite file that can be written")
        raise settings.add_location(problem, "http", "page", "history") from error
    return bridge.operator_api


def find_operator_api(bridge: Bridge, settings: Settings | None, file: str | None = None) -> OperatorApi:
    """Return the operator API of the bridge's page, or one without a page, for private sockets."""
    return bridge.operator_api or build_operator_api(bridge, settings, PageOptions(asks_with_clients=False), file)

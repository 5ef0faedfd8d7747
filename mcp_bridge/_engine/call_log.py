"""Writes the log of calls: a line per call at the level info, and its redacted arguments at the level debug.

Clients choose names and arguments, so the length of each is limited.
"""

from __future__ import annotations

import logging
import re

from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._protocol.wire.redacted_values import redact_arguments
from mcp_bridge._protocol.wire.values import to_text
from mcp_bridge._runtime.redaction import Redactor

logger = logging.getLogger("mcp_bridge.calls")

MAX_CLIENT = 100
"""The maximum number of characters of a client's name."""
MAX_NAME = 200
"""The maximum number of characters of the name of a tool or prompt, or of the URI of a resource."""
MAX_ARGUMENTS = 2000
"""The maximum number of characters of a call's arguments."""
_SESSION = re.compile(r"(session/[^/]{8})[^/]+")
_REFERENCE = re.compile(r"\((reference [0-9a-f]+)\)\.$")
"""The reference at the end of a `ToolFailed`, by which its exception can be found in the log."""


def log_call(call: ToolCall, ctx: RunningCall, seconds: float, result: ToolResult | None, redactor: Redactor) -> None:
    """Log the end of a call. A call without a result was cancelled. Call this only if the level info is enabled."""
    duration = f"{seconds * 1000:.1f} ms"
    client = _describe_client(ctx.client)
    name = redactor.redact_text(call.name)[:MAX_NAME]
    if result is None:
        logger.info("%s %r was cancelled after %s%s", call.kind, name, duration, client)
    elif result.is_error:
        outcome = result.code or "tool_error"
        reference = _REFERENCE.search(str(result.error_text))
        if reference is not None:
            outcome = f"{outcome}, {reference[1]}"
        logger.info("%s %r failed after %s%s: %s", call.kind, name, duration, client, outcome)
    else:
        logger.info("%s %r succeeded after %s%s", call.kind, name, duration, client)
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("%s %r had the arguments %s", call.kind, name, _render_arguments(call, redactor))


def _describe_client(client: str | None) -> str:
    """Describe the client for a line of the log.

    The id of a session grants access to it, so only its beginning is shown.
    """
    if client is None:
        return ""
    if client == "session/":
        return " for an anonymous client"
    name = _SESSION.sub(r"\1", client)[:MAX_CLIENT]
    return f" for {name!r}"


def _render_arguments(call: ToolCall, redactor: Redactor) -> str:
    """Return the arguments as JSON without secrets."""
    try:
        text = to_text(redact_arguments(call.arguments, redactor))
    except (TypeError, ValueError, RecursionError) as error:
        # A caller in process can pass anything.
        return f"that are not JSON ({type(error).__name__})"
    return text if len(text) <= MAX_ARGUMENTS else f"{text[:MAX_ARGUMENTS]}... ({len(text)} characters)"

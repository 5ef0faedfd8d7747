"""Tools that a framework would stop before, for a person to agree: here the person at the client is asked."""

from __future__ import annotations

from typing import Any

from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import ApprovalDeclined, Denied, MissingCapability
from mcp_bridge.wire.values import as_text

LONGEST = 500
"""Characters of each argument that a question shows: all are shown, so that none hides behind another."""


async def agreed(ctx: CallContext, name: str, arguments: Any) -> None:
    """Go on once a person has agreed to this call.

    Raises ApprovalDeclined where the person does not, Denied where the client cannot ask one.
    """
    shown = as_text({key: _short(value) for key, value in dict(arguments or {}).items()})
    try:
        answer = await ctx.ask(f"The tool '{name}' runs only when you agree. Run it with {shown}?")
    except MissingCapability as error:
        raise Denied(
            f"The tool '{name}' runs only when a person agrees, and this client cannot ask one: nothing was run. "
            "Use a client that declares elicitation."
        ) from error
    if not answer.accepted:
        raise ApprovalDeclined(f"The person who was asked did not agree to run '{name}': nothing was run.")


def _short(value: Any) -> Any:
    text = as_text(value)
    return value if len(text) <= LONGEST else f"{text[:LONGEST]} … and {len(text) - LONGEST} more characters"

"""The differences between the engine and the SDK's server that are intended, each with its reason.

The engine is right in all of them, by the specification or by a decision of this project (docs/architecture.md). P10
and other numbers are traps of the SDK's server.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.kits.oracle.twin_servers import Outcome

Json = dict[str, Any]


@dataclass(frozen=True)
class ListedDifference:
    """A difference: how to recognise it, and why the engine does not do what the SDK's server does."""

    name: str
    reason: str
    applies: Callable[[Outcome], bool]


def find_difference(outcome: Outcome) -> ListedDifference | None:
    """Return the listed difference that explains an outcome whose servers disagree, or None."""
    return next((each for each in DIFFERENCES if each.applies(outcome)), None)


def _get_error(groups: Any) -> Json | None:
    """The error response if a server has sent that and nothing else."""
    messages = [message for group in groups.values() for message in group]
    return messages[0].get("error") if len(messages) == 1 else None


def _has_codes(outcome: Outcome, engine: int, oracle: int) -> bool:
    ours, theirs = _get_error(outcome.engine), _get_error(outcome.oracle)
    return ours is not None and theirs is not None and (ours["code"], theirs["code"]) == (engine, oracle)


def _is_rejected(outcome: Outcome, *codes: int) -> bool:
    error = _get_error(outcome.engine)
    return error is not None and error["code"] in codes


def _is_silent(outcome: Outcome) -> bool:
    return not outcome.oracle


def _params(outcome: Outcome) -> Json:
    params = (outcome.message or {}).get("params")
    return params if isinstance(params, dict) else {}


def _meta(outcome: Outcome) -> Json:
    meta = _params(outcome).get("_meta")
    return meta if isinstance(meta, dict) else {}


def _is_malformed(outcome: Outcome) -> bool:
    return _is_rejected(outcome, -32600, -32700) and _is_silent(outcome)


def _has_empty_data(outcome: Outcome) -> bool:
    error = _get_error(outcome.oracle)
    return _has_codes(outcome, -32602, -32602) and error is not None and error.get("data") == ""


def _is_ambiguous(outcome: Outcome) -> bool:
    message = outcome.message or {}
    is_both = "method" in message and ("result" in message or "error" in message)
    return _is_rejected(outcome, -32600) and is_both


def _has_bad_token(outcome: Outcome) -> bool:
    token = _meta(outcome).get("progressToken", 0)
    return _is_rejected(outcome, -32602) and (isinstance(token, bool) or not isinstance(token, str | int))


def _is_not_text(outcome: Outcome) -> bool:
    try:
        outcome.line.decode()
    except UnicodeDecodeError:
        return _is_rejected(outcome, -32700)
    return False


def _is_old_form(outcome: Outcome) -> bool:
    name = "request elicitation/create"
    ours, theirs = outcome.engine.get(name, []), outcome.oracle.get(name, [])
    with_mode = [{**each, "params": {"mode": "form", **each["params"]}} for each in ours]
    return bool(ours) and with_mode == theirs and {**outcome.engine, name: 0} == {**outcome.oracle, name: 0}


DIFFERENCES = (
    ListedDifference(
        "malformed message",
        "The SDK drops what is not a message (P10). JSON-RPC 2.0, section 5.1: -32700 for what is not JSON, -32600 for "
        "JSON that is not a message.",
        _is_malformed,
    ),
    ListedDifference(
        "empty data",
        "The SDK's error for invalid params has an empty text as `data`, which says nothing and is optional (JSON-RPC "
        "2.0, section 5.1). The engine's message says what is wrong.",
        _has_empty_data,
    ),
    ListedDifference(
        "request and response",
        "A message with a method and a result is no message of JSON-RPC (sections 4 and 5), and a gateway could read it "
        "as the other kind (decision 23). The SDK takes it for a request.",
        _is_ambiguous,
    ),
    ListedDifference(
        "progress token",
        "A progress token is a string or an integer (basic/utilities/progress). The SDK reads false as 0, and checks "
        "tokens after everything else.",
        _has_bad_token,
    ),
    ListedDifference(
        "bytes that are not UTF-8",
        "Messages must be UTF-8 (basic/transports). The SDK replaces other bytes and serves what remains.",
        _is_not_text,
    ),
    ListedDifference(
        "mode of forms",
        "`mode` exists since 2025-11-25 (client/elicitation). The SDK sends it to clients of 2025-06-18 too.",
        _is_old_form,
    ),
)


def describe(outcome: Outcome) -> str:
    """Return an outcome for the report of a failed test."""
    line = outcome.line.decode(errors="replace")
    return f"{line}\n  engine: {json.dumps(outcome.engine)}\n  oracle: {json.dumps(outcome.oracle)}"

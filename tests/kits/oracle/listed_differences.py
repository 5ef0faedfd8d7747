"""The intended differences between the engine and the SDK's server, each with its reason.

The engine is right in all of them, by the specification or by a decision of this project (docs/decisions). P10 and
other numbers are traps of the SDK's server.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp_types import ClientCapabilities
from mcp_types.methods import CLIENT_REQUESTS
from pydantic import ValidationError

from mcp_bridge._protocol.wire.meta_keys import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcp_bridge._protocol.wire.protocol_versions import HANDSHAKE, STATELESS
from mcp_bridge._server.completions import MAX_LENGTH
from mcp_bridge._server.responses import truncate_text
from tests.kits.oracle.twin_servers import Outcome

Json = dict[str, Any]
MEMBERS = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})


@dataclass(frozen=True)
class ListedDifference:
    """A difference: a condition for it, and the reason of the engine's behaviour."""

    name: str
    reason: str
    applies: Callable[[Outcome], bool]


def find_difference(outcome: Outcome, *, is_http: bool = False) -> ListedDifference | None:
    """Return the listed difference that explains a disagreement, or None."""
    stateless = (difference for difference in DIFFERENCES if difference.applies is not _is_before_initialize)
    differences = [*HTTP_DIFFERENCES, *stateless] if is_http else DIFFERENCES
    return next((difference for difference in differences if difference.applies(outcome)), None)


def _get_error(groups: Any) -> Json | None:
    """Return the error if a server has sent only an error response."""
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


def _is_not_json(outcome: Outcome) -> bool:
    return outcome.message is None and _is_rejected(outcome, -32700) and not _is_silent(outcome)


def _is_old_form(outcome: Outcome) -> bool:
    name = "request elicitation/create"
    ours, theirs = outcome.engine.get(name, []), outcome.oracle.get(name, [])
    with_mode = [{**request, "params": {"mode": "form", **request["params"]}} for request in ours]
    return bool(ours) and with_mode == theirs and {**outcome.engine, name: 0} == {**outcome.oracle, name: 0}


def _has_state_checked_first(outcome: Outcome) -> bool:
    return _has_codes(outcome, -32602, -32602) and _get_error(outcome.oracle) == {
        "code": -32602, "data": {"reason": "invalid_request_state"},
    }  # fmt: skip


def _has_handshake_state(outcome: Outcome) -> bool:
    has_round = any(key in _params(outcome) for key in ("requestState", "inputResponses"))
    error = _get_error(outcome.oracle)
    return has_round and PROTOCOL_VERSION not in _meta(outcome) and error is not None and error["code"] == -32602


def _is_second_initialize(outcome: Outcome) -> bool:
    return (outcome.message or {}).get("method") == "initialize" and _is_rejected(outcome, -32600)


def _has_truncated_echo(outcome: Outcome) -> bool:
    ours, theirs = _get_error(outcome.engine), _get_error(outcome.oracle)
    if not _has_codes(outcome, -32602, -32602) or ours is None or theirs is None or "data" not in theirs:
        return False
    return ours["data"] == {key: truncate_text(text) for key, text in theirs["data"].items()}


def _has_large_id(outcome: Outcome) -> bool:
    number = (outcome.message or {}).get("id")
    return _is_rejected(outcome, -32600) and isinstance(number, int | float) and abs(number) >= 2**63


def _has_duplicate_key(outcome: Outcome) -> bool:
    if not _is_rejected(outcome, -32600) or outcome.message is None:
        return False
    pairs: list[list[str]] = []
    json.loads(outcome.line, object_pairs_hook=lambda members: pairs.append([name for name, _ in members]))
    return any(len(set(names)) < len(names) for names in pairs)


def _has_ambiguous_case(outcome: Outcome) -> bool:
    names, params = list(outcome.message or {}), list(_params(outcome))
    has_odd_member = any(name != name.lower() and name.lower() in MEMBERS for name in names)
    return _is_rejected(outcome, -32600) and (has_odd_member or len({name.lower() for name in params}) < len(params))


def _has_coerced_value(outcome: Outcome) -> bool:
    """Whether the SDK serves a request with values that its types accept only after a conversion."""
    message = outcome.message or {}
    version = STATELESS if PROTOCOL_VERSION in _meta(outcome) else HANDSHAKE
    model = CLIENT_REQUESTS.get((str(message.get("method")), version))
    if model is None or not _is_rejected(outcome, -32602) or (_get_error(outcome.oracle) or {}).get("code") == -32602:
        return False
    try:
        model.model_validate(message, by_name=False, strict=True)
    except ValidationError:
        return True
    return False


def _has_odd_capabilities(outcome: Outcome) -> bool:
    """Whether the SDK's type of the handshake era rejects the capabilities of a stateless request."""
    capabilities = _meta(outcome).get(CLIENT_CAPABILITIES)
    error = _get_error(outcome.oracle)
    if not isinstance(capabilities, dict) or error is None or error["code"] != -32021:
        return False
    try:
        ClientCapabilities.model_validate(capabilities, by_name=False)
    except ValidationError:
        return True
    return False


def _is_before_initialize(outcome: Outcome) -> bool:
    is_handshake = PROTOCOL_VERSION not in _meta(outcome)
    return is_handshake and not outcome.is_initialized and _is_rejected(outcome, -32600)


def _is_asked_again(outcome: Outcome) -> bool:
    name = str((outcome.message or {}).get("id")).partition("#")[0]
    return "result" in (outcome.message or {}) and set(outcome.engine) == {f"request {name}"}


def _is_in_flight(outcome: Outcome) -> bool:
    return _is_rejected(outcome, -32600) and (outcome.message or {}).get("id") in outcome.in_flight


def _cancels_by_text(outcome: Outcome) -> bool:
    """Whether the client cancels request 7 as "7"."""
    number = _params(outcome).get("requestId")
    is_cancellation = (outcome.message or {}).get("method") == "notifications/cancelled"
    return is_cancellation and any(
        number != request_id and str(number) == str(request_id) for request_id in outcome.in_flight
    )


def _is_used_state(outcome: Outcome) -> bool:
    error = _get_error(outcome.engine)
    return "requestState" in _params(outcome) and error == {"code": -32602, "data": {"reason": "invalid_request_state"}}


def _has_long_value(outcome: Outcome) -> bool:
    argument = _params(outcome).get("argument")
    value = argument.get("value") if isinstance(argument, dict) else None
    return _is_rejected(outcome, -32602) and isinstance(value, str) and len(value) > MAX_LENGTH


def _has_other_error(outcome: Outcome) -> bool:
    """Whether both reject a message, and only the engine returns its id or the right code."""
    error = _get_error(outcome.oracle) or {"code": 0}
    is_nameless = set(outcome.oracle) == {"response to None"} and error["code"] in (-32600, -32602)
    return is_nameless and _is_rejected(outcome, -32600)


def _is_rejected_as_text(outcome: Outcome) -> bool:
    engine, oracle = outcome.statuses
    return engine == oracle >= 400 and _is_silent(outcome) and _is_rejected(outcome, -32600)


def _has_unsupported_version(outcome: Outcome) -> bool:
    return _has_codes(outcome, -32022, -32602) and outcome.statuses == (400, 400)


def _lacks_version_header(outcome: Outcome) -> bool:
    return _has_codes(outcome, -32020, -32600) and PROTOCOL_VERSION in _meta(outcome)


def _announces_list_changes(outcome: Outcome) -> bool:
    theirs = json.dumps(outcome.oracle, sort_keys=True).replace('"listChanged": false', '"listChanged": true')
    return theirs == json.dumps(outcome.engine, sort_keys=True)


def _has_half_a_pair(outcome: Outcome) -> bool:
    try:
        data = json.loads(outcome.line)
    except (ValueError, RecursionError):
        return False
    text = json.dumps(data, ensure_ascii=False)
    return _is_silent(outcome) and any("\ud800" <= letter <= "\udfff" for letter in text)


DIFFERENCES = (
    ListedDifference(
        "malformed message",
        "The SDK drops what is not a message (P10). JSON-RPC 2.0, section 5.1: -32700 for what is not JSON, -32600 for "
        "JSON that is not a message.",
        _is_malformed,
    ),
    ListedDifference(
        "empty data",
        "The SDK's error for invalid params has an empty text as `data`, which carries no information and is optional "
        "(JSON-RPC 2.0, section 5.1). The engine's message names the problem.",
        _has_empty_data,
    ),
    ListedDifference(
        "request and response",
        "A message with a method and a result is no message of JSON-RPC (sections 4 and 5), and a gateway could read "
        "it as the other kind (docs/decisions/one-parser.md). The SDK takes it for a request.",
        _is_ambiguous,
    ),
    ListedDifference(
        "progress token",
        "A progress token is a string or an integer (basic/utilities/progress). The SDK reads false as 0, and checks "
        "tokens after everything else.",
        _has_bad_token,
    ),
    ListedDifference(
        "not JSON",
        "Messages are JSON in UTF-8 (basic/transports; RFC 8259). The SDK's parser reads NaN and Infinity, and its "
        "transport replaces bytes that are not UTF-8.",
        _is_not_json,
    ),
    ListedDifference(
        "half of a surrogate pair",
        "Programs in JavaScript cut texts inside an emoji. The engine replaces such halves by U+FFFD. The SDK drops "
        "the message, so its caller waits forever.",
        _has_half_a_pair,
    ),
    ListedDifference(
        "mode of forms",
        "`mode` exists since 2025-11-25 (client/elicitation). The SDK sends it to clients of 2025-06-18 too.",
        _is_old_form,
    ),
    ListedDifference(
        "order of checks",
        "Of a request with invalid params and an invalid state, the SDK reports the state and the engine the params.",
        _has_state_checked_first,
    ),
    ListedDifference(
        "used state",
        "A request state is valid once, so that no answer of the user counts twice "
        "(docs/decisions/suspended-calls.md). The SDK accepts it until it expires.",
        _is_used_state,
    ),
    ListedDifference(
        "request state of a handshake client",
        "The handshake versions have no requestState and no inputResponses, so they are unknown params, which a "
        "receiver ignores (2025-11-25, schema). The SDK checks them in both eras.",
        _has_handshake_state,
    ),
    ListedDifference(
        "second initialize",
        "Initialization is the first interaction (2025-11-25, basic/lifecycle). The SDK starts the session again.",
        _is_second_initialize,
    ),
    ListedDifference(
        "before initialize",
        "Before initialize, requests other than ping are invalid (2025-11-25, basic/lifecycle): -32600, because "
        "nothing is wrong with their params. For the SDK, notifications/initialized alone begins a session.",
        _is_before_initialize,
    ),
    ListedDifference(
        "question asked again",
        "The engine asks again if an answer is not valid. In the SDK, such an answer ends the call.",
        _is_asked_again,
    ),
    ListedDifference(
        "id in flight",
        "An id must not be used twice (2025-11-25, basic). The SDK runs both requests, and can cancel only the second.",
        _is_in_flight,
    ),
    ListedDifference(
        "cancelled by text",
        "An id is a string or a number, and `requestId` must be that of the request (basic/utilities/cancellation). "
        'For the SDK, 7 and "7" are one id.',
        _cancels_by_text,
    ),
    ListedDifference(
        "truncated echo",
        "The engine does not send names and cursors of more than 1,000 characters back.",
        _has_truncated_echo,
    ),
    ListedDifference(
        "long value",
        "Servers must validate what is to be completed (server/utilities/completion). The engine rejects values that "
        "are too long for a user to type.",
        _has_long_value,
    ),
    ListedDifference(
        "large id",
        "Other programs cannot represent an id beyond 64 bits (RFC 8259, section 6), so they would not recognise the "
        "response.",
        _has_large_id,
    ),
    ListedDifference(
        "duplicate key",
        "The names in an object should be unique (RFC 8259, section 4): another reader may use the other value "
        "(docs/decisions/one-parser.md).",
        _has_duplicate_key,
    ),
    ListedDifference(
        "ambiguous case",
        "Readers that ignore case would understand the message differently (docs/decisions/one-parser.md).",
        _has_ambiguous_case,
    ),
    ListedDifference(
        "coerced value",
        "The schema of MCP has another type. The SDK converts values, such as 0 to false and true to 1.0.",
        _has_coerced_value,
    ),
    ListedDifference(
        "capabilities that the SDK cannot read",
        "The SDK reads capabilities of 2026-07-28 by its type of the handshake era, which has more members, and takes "
        "those that do not fit for none. The engine uses the schema of 2026-07-28.",
        _has_odd_capabilities,
    ),
)

HTTP_DIFFERENCES = (
    ListedDifference(
        "error without an id",
        "The error for a malformed message has the code -32600, and the id of the message unless it could not be "
        "detected (JSON-RPC 2.0, section 5). The SDK's has no id, and to handshake clients the code -32602.",
        _has_other_error,
    ),
    ListedDifference(
        "rejection as text",
        "The body of a rejected request may be a JSON-RPC error without an id (basic/transports/streamable-http). The "
        "SDK's is a text, which clients of JSON-RPC cannot read.",
        _is_rejected_as_text,
    ),
    ListedDifference(
        "unsupported version",
        "A version that the server does not implement is rejected with -32022 (basic/transports/streamable-http). The "
        "SDK first checks `_meta`, which the requests of handshake clients lack.",
        _has_unsupported_version,
    ),
    ListedDifference(
        "missing version header",
        "A request of 2026-07-28 without the header of its version, or with another version in it, is rejected with "
        "-32020 (basic/transports/streamable-http). By this header alone, the SDK takes it for one without a session.",
        _lacks_version_header,
    ),
    ListedDifference(
        "list changes over HTTP",
        "The SDK does not declare listChanged over HTTP (P6). The engine sends the notifications, so it declares them.",
        _announces_list_changes,
    ),
)
"""Differences that exist only over HTTP."""


def describe(outcome: Outcome) -> str:
    """Return an outcome for the report of a failed test."""
    line = outcome.line.decode(errors="replace")
    messages = f"  engine: {json.dumps(outcome.engine)}\n  oracle: {json.dumps(outcome.oracle)}"
    return f"{line}\n{messages}\n  statuses: {outcome.statuses}"

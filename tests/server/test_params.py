"""Params are checked by the schemas of their protocol revision. An error has the place and the reason, no values."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.methods import (
    CLIENT_NOTIFICATIONS,
    CLIENT_REQUESTS,
    CLIENT_RESULTS,
    parse_client_notification,
    parse_client_request,
)
from pydantic import BaseModel, ValidationError

from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS, RpcError
from mcp_bridge._server.params import _load_schemas, list_result_problems, load_param_schemas
from tests.kits.constants import ENVELOPE, HANDSHAKE, META_PREFIX, STATELESS, make_envelope
from tests.kits.fuzzing import use_examples
from tests.kits.schema.fuzz_messages import generate_message, list_messages

META = {"_meta": ENVELOPE}
PROMPT = {"type": "ref/prompt", "name": "paint"}
VALUE = {"name": "color", "value": "r"}
CLIENT = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}
LEVELS = '["alert", "critical", "debug", "emergency", "error", "info", "notice", "warning"]'
SAMPLED = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}}


def check_params(method: str, version: str, params: Any) -> None:
    """Raise RpcError for invalid params; those of unknown methods are not checked."""
    schema = load_param_schemas(version).get(method)
    data = {} if params is None else params
    if schema is not None and not schema.is_valid(data):
        raise schema.make_error(method, data)


VALID: list[tuple[str, str, Any]] = [
    ("ping", HANDSHAKE, None),
    ("ping", HANDSHAKE, {"_meta": {"anything": [1]}}),
    ("initialize", HANDSHAKE, CLIENT),
    ("initialize", HANDSHAKE, {**CLIENT, "capabilities": {"roots": {"listChanged": True}, "new": 1}}),
    ("tools/list", HANDSHAKE, None),
    ("tools/list", "2024-11-05", {"cursor": None}),
    ("tools/call", HANDSHAKE, {"name": "echo"}),
    ("tools/call", "2025-06-18", {"name": "echo", "arguments": {"a": [{}]}, "_meta": {"progressToken": 0}, "new": 1}),
    ("logging/setLevel", HANDSHAKE, {"level": "info"}),
    ("completion/complete", HANDSHAKE, {"ref": PROMPT, "argument": VALUE, "context": {"arguments": {"a": "b"}}}),
    ("notifications/progress", HANDSHAKE, {"progressToken": "a", "progress": 0.5, "total": None}),
    ("notifications/initialized", HANDSHAKE, None),
    ("server/discover", STATELESS, META),
    ("tools/call", STATELESS, {**META, "name": "echo", "arguments": {}, "requestState": "s"}),
    ("tools/call", STATELESS, {**META, "name": "e", "inputResponses": {"a": {"action": "cancel"}, "b": SAMPLED}}),
    ("subscriptions/listen", STATELESS, {**META, "notifications": {"resourceSubscriptions": ["test://a"]}}),
    ("notifications/cancelled", STATELESS, {"requestId": 1}),
    ("tools/eat", STATELESS, {"unknown": "methods are not checked"}),
    ("initialize", STATELESS, {}),
]


@pytest.mark.parametrize(("method", "version", "params"), VALID)
def test_valid_params_pass(method: str, version: str, params: Any) -> None:
    check_params(method, version, params)


INVALID: list[tuple[str, str, Any, str]] = [
    ("tools/call", HANDSHAKE, None, "name: required field missing"),
    ("tools/call", HANDSHAKE, ["echo"], "params: expected type object, got array"),
    ("tools/call", HANDSHAKE, {"name": 1}, "name: expected type string, got integer"),
    ("tools/call", HANDSHAKE, {"name": "e", "arguments": ["a"]}, "arguments: expected type object, got array"),
    (
        "tools/list",
        "2024-11-05",
        {"_meta": {"progressToken": True}},
        "_meta.progressToken: expected type string or integer, got boolean",
    ),
    (
        "tools/list",
        HANDSHAKE,
        {"_meta": {"progressToken": 1.5}},
        "_meta.progressToken: expected type string or integer, got number",
    ),
    (
        "initialize",
        HANDSHAKE,
        {**CLIENT, "clientInfo": {"name": "a", "icons": [{"src": 1}]}},
        "clientInfo.version: required field missing; clientInfo.icons[0].src: expected type string, got integer",
    ),
    ("logging/setLevel", HANDSHAKE, {"level": "loud"}, f"level: value not in enum {LEVELS}"),
    ("prompts/get", HANDSHAKE, {"name": "e", "arguments": {"a": 1}}, "arguments.a: expected type string, got integer"),
    (
        "prompts/get",
        HANDSHAKE,
        {"name": "e", "arguments": {"a b": None}},
        'arguments["a b"]: expected type string, got null',
    ),
    ("completion/complete", HANDSHAKE, {"ref": {}, "argument": VALUE}, "ref.type: required field missing"),
    ("completion/complete", HANDSHAKE, {"ref": "a", "argument": VALUE}, "ref: expected type object, got string"),
    (
        "completion/complete",
        HANDSHAKE,
        {"ref": {"type": "ref/other", "name": "a"}, "argument": VALUE},
        'ref.type: value not in enum ["ref/prompt", "ref/resource"]',
    ),
    (
        "completion/complete",
        HANDSHAKE,
        {"ref": {"type": "ref/resource", "name": "a"}, "argument": VALUE},
        "ref.uri: required field missing",
    ),
    (
        "notifications/progress",
        HANDSHAKE,
        {"progressToken": "a", "progress": "half"},
        "progress: expected type number, got string",
    ),
    ("tools/list", STATELESS, None, "_meta: required field missing"),
    (
        "tools/list",
        STATELESS,
        {"_meta": {}},
        f'_meta["{META_PREFIX}clientCapabilities"]: required field missing; '
        f'_meta["{META_PREFIX}protocolVersion"]: required field missing',
    ),
    (
        "tools/list",
        STATELESS,
        {"_meta": {**ENVELOPE, f"{META_PREFIX}logLevel": "loud"}},
        f'_meta["{META_PREFIX}logLevel"]: value not in enum {LEVELS}',
    ),
    (
        "tools/call",
        STATELESS,
        {**META, "name": "e", "inputResponses": {"a": {"action": "maybe"}}},
        'inputResponses.a.action: value not in enum ["accept", "cancel", "decline"]',
    ),
    (
        "tools/call",
        STATELESS,
        {**META, "name": "e", "inputResponses": {"a": {**SAMPLED, "content": [{"type": "image", "data": ""}]}}},
        "inputResponses.a.content[0].mimeType: required field missing",
    ),
    (
        "tools/call",
        STATELESS,
        {
            **META,
            "name": "e",
            "inputResponses": {
                "a": {**SAMPLED, "content": {"type": "text", "text": "", "annotations": {"priority": 2}}}
            },
        },
        "inputResponses.a.content.annotations.priority: value > maximum 1.0",
    ),
    (
        "subscriptions/listen",
        STATELESS,
        {**META, "notifications": {"toolsListChanged": 1}},
        "notifications.toolsListChanged: expected type boolean, got integer",
    ),
    ("notifications/cancelled", STATELESS, None, "requestId: required field missing"),
]


@pytest.mark.parametrize(("method", "version", "params", "problems"), INVALID)
def test_an_error_has_the_path_and_the_problem(method: str, version: str, params: Any, problems: str) -> None:
    assert find_error(method, version, params) == f"Invalid parameters of {method}: {problems}"


def test_an_error_lists_at_most_five_problems() -> None:
    message = find_error("prompts/get", HANDSHAKE, {"name": "e", "arguments": {str(number): 1 for number in range(20)}})
    assert message.count("expected type string") == 5


def test_an_error_repeats_no_value_and_only_the_beginning_of_a_key() -> None:
    secret, key = "sesame" * 1000, "k" * 1_000_000
    response = {key: secret, "a": {"action": secret}, "b": {"roots": secret}}
    for method, params in (
        ("logging/setLevel", {"level": secret}),
        ("tools/call", {"name": {secret: secret}, "arguments": secret, "_meta": {"progressToken": [secret]}}),
        ("completion/complete", {"ref": {"type": secret}, "argument": {"name": [secret]}}),
    ):
        assert "sesame" not in find_error(method, HANDSHAKE, params)
    message = find_error("tools/call", STATELESS, {**META, "name": "e", "inputResponses": response})
    assert "sesame" not in message
    assert "kkk... (1000000 characters)" in message
    assert len(message) < 1000


def make_members(number: int, value: Any, last: Any) -> dict[str, Any]:
    """Return an object with this many equal members, and one with the name z."""
    return {**dict.fromkeys(map(str, range(number)), value), "z": last}


def make_empty() -> list[Any]:
    """Return as many lists as fit into a message of 4 MiB."""
    return [[] for _ in range(1_300_000)]


def make_contents() -> list[Any]:
    content = {"type": "tool_result", "toolUseId": "", "content": [{} for _ in range(100_000)]}
    return [content] * 10


LARGE: dict[str, tuple[str, Callable[[], dict[str, Any]], str]] = {
    "arguments": ("tools/call", lambda: {"name": "e", "arguments": {"a": make_empty()}}, ""),
    "a response of lists": (
        "tools/call",
        lambda: {"name": "e", "inputResponses": {"a": make_empty()}},
        "inputResponses.a: expected type object, got array",
    ),
    "responses": (
        "tools/call",
        lambda: {"name": "e", "inputResponses": make_members(100_000, {"action": "cancel"}, {"action": "eat"})},
        "inputResponses.z.action: value not in enum",
    ),
    "contents": (
        "tools/call",
        lambda: {"name": "e", "inputResponses": {"a": {**SAMPLED, "content": make_contents()}}},
        "inputResponses.a.content[0].content[0].type: required field missing",
    ),
    "context": (
        "completion/complete",
        lambda: {"ref": PROMPT, "argument": VALUE, "context": {"arguments": make_members(250_000, "x", 1)}},
        "context.arguments.z: expected type string, got integer",
    ),
    "problems": (
        "prompts/get",
        lambda: {"name": "e", "arguments": make_members(250_000, 1, 1)},
        'arguments["0"]: expected',
    ),
    "capabilities": (
        "tools/list",
        lambda: {"_meta": make_envelope({"experimental": {"a": {"b": make_empty()}}})},
        "",
    ),
    "subscriptions": (
        "subscriptions/listen",
        lambda: {"notifications": {"resourceSubscriptions": make_empty()}},
        "notifications.resourceSubscriptions[0]: expected type string, got array",
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_params_are_checked_in_less_than_a_second(name: str) -> None:
    method, make, problem = LARGE[name]
    params = {**META, **make()}
    started = time.process_time()
    message = find_error(method, STATELESS, params)
    assert time.process_time() - started < 1
    assert (problem in message) if problem else not message
    assert len(message) < 1000


def test_the_depth_of_what_no_schema_restricts_is_no_problem() -> None:
    deep = orjson.loads("[" * 1000 + "]" * 1000)
    check_params("tools/call", STATELESS, {**META, "name": "e", "arguments": {"a": deep}})
    message = find_error("tools/call", STATELESS, {**META, "name": deep, "arguments": {"a": deep}})
    assert message == "Invalid parameters of tools/call: name: expected type string, got array"


RESULTS: list[tuple[str, str, Any, list[str]]] = [
    ("elicitation/create", HANDSHAKE, {"action": "accept", "content": {"a": ["b"], "c": 1}}, []),
    ("elicitation/create", STATELESS, {}, ["action: required field missing"]),
    ("sampling/createMessage", STATELESS, SAMPLED, []),
    ("sampling/createMessage", HANDSHAKE, {**SAMPLED, "role": "x"}, ['role: value not in enum ["assistant", "user"]']),
    ("roots/list", HANDSHAKE, {"roots": [{}]}, ["roots[0].uri: required field missing"]),
    ("roots/list", HANDSHAKE, [], ["result: expected type object, got array"]),
    ("other/method", HANDSHAKE, [], []),
]


@pytest.mark.parametrize(("method", "version", "result", "problems"), RESULTS)
def test_the_results_of_clients_are_checked(method: str, version: str, result: Any, problems: list[str]) -> None:
    assert list_result_problems(method, version, result) == problems


@pytest.mark.parametrize(("method", "version"), list_messages("params"))
@use_examples(60)
@given(data=st.data())
def test_params_get_the_verdict_of_the_official_types(method: str, version: str, data: st.DataObject) -> None:
    """The types are strict here. Otherwise they take "1" for a number and True for an integer, for example."""
    params = data.draw(generate_message("params", method, version))
    model = {**CLIENT_REQUESTS, **CLIENT_NOTIFICATIONS}[method, version]
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    assert (not find_error(method, version, params)) is is_valid(model, message)


@pytest.mark.parametrize(("method", "version"), list_messages("params"))
@use_examples(20)
@given(data=st.data())
def test_the_first_message_gets_the_verdict_of_later_ones(method: str, version: str, data: st.DataObject) -> None:
    params = data.draw(generate_message("params", method, version))
    _load_schemas.cache_clear()
    assert len({find_error(method, version, params) for _ in range(3)}) == 1


@pytest.mark.parametrize(("method", "version"), list_messages("params"))
@use_examples(30)
@given(data=st.data())
def test_valid_params_can_be_parsed_by_the_official_server(method: str, version: str, data: st.DataObject) -> None:
    params = data.draw(generate_message("params", method, version))
    if isinstance(params, dict) and not find_error(method, version, params):
        parse = parse_client_request if (method, version) in CLIENT_REQUESTS else parse_client_notification
        parse(method, version, remove_differences(params))


def remove_differences(params: dict[str, Any]) -> dict[str, Any]:
    """Remove the params that the official server parses by other types than those of the revision.

    It rejects a `progressToken` of null, `inputResponses` with roots whose URI is not `file:`, and members of
    `inputResponses` that only other revisions define.
    """
    meta = params.get("_meta") or {}
    cache = {key: value for key, value in meta.items() if (key, value) != ("progressToken", None)}
    return {key: value for key, value in params.items() if key != "inputResponses"} | ({"_meta": cache} if meta else {})


@pytest.mark.parametrize(("method", "version"), list_messages("results"))
@use_examples(60)
@given(data=st.data())
def test_results_get_the_verdict_of_the_official_types(method: str, version: str, data: st.DataObject) -> None:
    result = data.draw(generate_message("results", method, version))
    if version == HANDSHAKE:
        assert (not list_result_problems(method, version, result)) is is_valid(CLIENT_RESULTS[method, version], result)
    else:
        params = {**META, "name": "e", "inputResponses": {"a": result}}
        assert list_result_problems(method, version, result) or not find_error("tools/call", version, params)


@pytest.mark.parametrize("number", [1.0, -0.0, 2.0**60])
def test_a_float_without_a_fraction_is_an_integer(number: float) -> None:
    """As JSON Schema defines it; the strict types reject it."""
    check_params("tools/list", HANDSHAKE, {"_meta": {"progressToken": number}})


def test_every_method_of_the_official_types_has_a_schema() -> None:
    official = {*CLIENT_REQUESTS, *CLIENT_NOTIFICATIONS}
    assert {row for row in official if row[1] in (HANDSHAKE, STATELESS)} == set(list_messages("params"))


def test_older_versions_have_the_types_of_the_last_handshake_revision() -> None:
    for (method, version), model in [*CLIENT_REQUESTS.items(), *CLIENT_NOTIFICATIONS.items()]:
        if version < HANDSHAKE:
            assert model in (CLIENT_REQUESTS.get((method, HANDSHAKE)), CLIENT_NOTIFICATIONS.get((method, HANDSHAKE)))


def find_error(method: str, version: str, params: Any) -> str:
    """Return the text of the error for these params, or an empty text."""
    try:
        check_params(method, version, params)
    except RpcError as error:
        text, code = error.message, error.code
    else:
        return ""
    assert code == INVALID_PARAMS
    assert not text.endswith(": ")
    return text


def is_valid(model: Any, data: Any) -> bool:
    """Whether data fits an official type, without conversions."""
    assert issubclass(model, BaseModel)
    try:
        model.model_validate(data, strict=True, by_name=False)
    except ValidationError:
        return False
    return True

"""Messages between the bridge and a worker are the same after encoding and decoding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as some

from mcp_bridge import Answer, Form, Message
from mcp_bridge._contracts import errors
from mcp_bridge._contracts.content import Audio, EmbeddedResource, Image, ResourceLink, Text
from mcp_bridge._contracts.handlers import NeedsInput
from mcp_bridge._contracts.prompt import PromptArgument, PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.source import Offer
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._isolation.codec import (
    WorkerError,
    decode_answer,
    decode_error,
    decode_needs,
    decode_result,
    encode_answer,
    encode_error,
    encode_needs,
    encode_result,
)
from mcp_bridge._isolation.offer_codec import decode_offer, encode_offer
from mcp_bridge._protocol.wire.outcomes import TABLE
from mcp_bridge.questions import Link, Root, Roots, Sampled, Sampling

text = some.text(some.characters(exclude_categories=["Cs"]))
whole = some.integers(-(2**63), 2**64 - 1)
values = some.recursive(
    some.none() | some.booleans() | whole | some.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(text, inner, max_size=3),
    max_leaves=10,
)
maps = some.dictionaries(text, values, min_size=1, max_size=3)
meta: dict[str, Any] = {"meta": some.none() | maps}
blocks = some.one_of(
    some.builds(Text, text, **meta),
    some.builds(Image, some.binary(), text.filter(bool), **meta),
    some.builds(Audio, some.binary(), text.filter(bool), **meta),
    some.builds(EmbeddedResource, text, text | some.binary(), some.none() | text.filter(bool), **meta),
    some.builds(ResourceLink, text, text, some.none() | text, some.none() | text, some.none() | text, **meta),
)
results = some.builds(
    ToolResult,
    success=some.booleans(),
    output=values,
    error=some.none() | text | maps,
    content=some.none() | some.lists(blocks, max_size=3).map(tuple),
    code=some.none() | text,
    meta=some.none() | maps,
)


def transfer(message: Any) -> Any:
    """Return a value after encoding it as JSON and decoding it."""
    return orjson.loads(orjson.dumps(message))


@given(results)
def test_results_are_the_same_after_encoding_and_decoding(result: ToolResult) -> None:
    assert decode_result(transfer(encode_result(result))) == result


@given(some.lists(some.builds(Message, blocks, some.sampled_from(["user", "assistant"])), max_size=3))
def test_messages_of_prompts_are_the_same_after_encoding_and_decoding(messages: list[Message]) -> None:
    result = ToolResult(success=True, content=tuple(messages))
    assert decode_result(transfer(encode_result(result, of_prompt=True))) == result


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.code)
@given(message=text, details=some.lists(text, max_size=3))
def test_errors_have_the_same_class_code_and_text_after_decoding(row: Any, message: str, details: list[str]) -> None:
    value = row.error.__new__(row.error)
    errors.CallError.__init__(value, message, details=details)
    if row.error is errors.MissingCapability:
        value = errors.MissingCapability({"sampling": {"tools": {}}})
    if row.error is errors.InvalidOutput:
        value.output = {"kept": 1}
    decoded = decode_error(transfer(encode_error(value)))
    assert isinstance(decoded, errors.CallError)
    assert type(decoded) is row.error
    assert (decoded.code, decoded.text) == (value.code, value.text)
    for name in ("required", "output"):
        assert getattr(decoded, name, None) == getattr(value, name, None)


def test_a_code_of_the_author_is_the_same_after_decoding() -> None:
    decoded = decode_error(transfer(encode_error(errors.ToolError("no", code="own", details=["a", "b"]))))
    assert isinstance(decoded, errors.ToolError)
    assert (decoded.code, decoded.text) == ("own", "no\n- a\n- b")


def test_other_errors_have_the_same_name_and_text_after_decoding() -> None:
    decoded = decode_error(transfer(encode_error(KeyError("x"))), "Traceback ...")
    assert isinstance(decoded, WorkerError)
    assert (type(decoded).__name__, str(decoded)) == ("KeyError", "'x'")
    assert decoded.__notes__ == ["Traceback ..."]
    assert isinstance(decode_error(transfer(encode_error(ValueError("x")))), ValueError)


names = some.sampled_from(["name", "age", "n"])
forms = some.builds(
    lambda properties: {"type": "object", "properties": properties},
    some.dictionaries(names, some.sampled_from([{"type": "string"}, {"type": "integer"}, {"type": "boolean"}])),
)
questions = some.one_of(
    some.builds(Form, text, forms),
    some.builds(Link, text, text),
    some.builds(Sampling, text, some.integers(1, 9), system_prompt=some.none() | text, metadata=some.none() | maps),
    some.just(Roots()),
)


@given(some.dictionaries(text, questions, min_size=1, max_size=3), values)
def test_questions_are_the_same_after_encoding_and_decoding(asked: dict[str, Any], state: Any) -> None:
    decoded = decode_needs(transfer(encode_needs(NeedsInput(asked, state))))
    assert decoded.state == state
    for key, question in asked.items():
        if isinstance(question, Sampling):
            assert replace(decoded.questions[key], messages=question.messages) == question  # type: ignore[arg-type]
        else:
            assert decoded.questions[key] == question


@given(some.sampled_from(["accept", "decline", "cancel"]), maps)
def test_answers_are_the_same_after_encoding_and_decoding(action: Any, content: dict[str, Any]) -> None:
    answer = Answer(action=action, content=content, data=content)
    assert decode_answer(transfer(encode_answer(answer))) == answer


@given(some.lists(blocks, max_size=3))
def test_sampled_messages_and_roots_are_the_same_after_encoding_and_decoding(content: Any) -> None:
    sampled = Sampled(role="assistant", content=(*content, {"type": "tool_use", "id": "1"}), model="m", stop_reason="x")
    assert decode_answer(transfer(encode_answer(sampled))) == sampled
    roots = (Root(uri="file:///a", name="A"), Root(uri="file:///b"))
    assert decode_answer(transfer(encode_answer(roots))) == roots


@given(text.filter(bool), text, maps, some.lists(text, max_size=2))
def test_offers_are_the_same_after_encoding_and_decoding(
    name: str, title: str, given_meta: dict[str, Any], tags: list[str]
) -> None:
    def handler(data: Any) -> None: ...

    shared: Any = {"title": title, "meta": given_meta, "icons": [{"src": "x"}]}
    offer = Offer(
        tools=[ToolEntry(name, title, handler, {"type": "object"}, {}, tags, annotations=given_meta, **shared)],
        resources=[ResourceEntry(uri=name, name=title, handler=handler, mime_type=title, **shared)],
        templates=[
            ResourceTemplate(uri_template=name, name=title, handler=handler, completions={"a": ["x", "y"]}, **shared)
        ],
        prompts=[
            PromptEntry(
                name=name,
                handler=handler,
                arguments=[PromptArgument(name="a", description=title, required=True)],
                completions={"a": lambda value: []},
                **shared,
            )
        ],
        problems=[title],
        notes=[title],
    )
    calls: list[Any] = []

    def remote(*given: Any) -> Any:
        calls.append(given)
        return handler if not given[2] else offer.prompts[0].completions["a"]

    assert decode_offer(transfer(encode_offer(offer)), remote) == offer
    assert ("prompts", name, "a", False) in calls

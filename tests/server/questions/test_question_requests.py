"""Questions that no client could read are errors of their author, before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp_types import CreateMessageRequestParams
from pydantic import AnyHttpUrl, ValidationError

from mcp_bridge._contracts.question import Link, Sampling
from mcp_bridge._server.questions.requests import to_request
from tests.kits.constants import STATELESS

TOOL = {"name": "add", "inputSchema": {"type": "object"}}
TEXT = {"type": "text", "text": "Hi"}


def make_message(**parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": TEXT, **parts}


def block(content_type: str, **parts: Any) -> dict[str, Any]:
    return make_message(content={"type": content_type, **parts})


VALID: list[Any] = [
    Sampling("Hi"),
    Sampling(make_message()),  # type: ignore[arg-type]
    Sampling([make_message(content=[TEXT, TEXT], _meta={"a": 1}), "more"]),
    Sampling([make_message(content=[])]),
    Sampling([block("image", data="AA==", mimeType="image/png"), block("audio", data="AA==", mimeType="audio/wav")]),
    Sampling([block("tool_use", id="1", name="add", input={}), block("tool_result", toolUseId="1", content=[TEXT])]),
    Sampling([block("tool_result", toolUseId="1", structuredContent=[1], isError=False)]),
    Sampling("Hi", temperature=1, stop_sequences=["a"], system_prompt="", metadata={"a": [1]}, include_context="none"),
    Sampling("Hi", model_preferences={"hints": [{"name": "small"}, {}], "costPriority": 0.5}, tool_choice={}),
    Sampling("Hi", tools=[TOOL, {**TOOL, "title": "Add", "annotations": {}}], tool_choice={"mode": "auto"}),
]

INVALID: list[tuple[Any, str]] = [
    (Sampling([make_message(role="system")]), "$.messages[0].role"),
    (Sampling([{"role": "user"}]), "$.messages[0].content"),
    (Sampling([{"content": TEXT}]), "$.messages[0].role"),
    (Sampling([make_message(content="Hi")]), "$.messages[0].content"),
    (Sampling([make_message(content=["Hi"])]), "$.messages[0].content[0]"),
    (Sampling(["Hi", block("video", data="AA==")]), "$.messages[1].content[0].type"),
    (Sampling([block("text")]), "$.messages[0].content[0].text"),
    (Sampling([block("image", data="AA==")]), "$.messages[0].content[0].mimeType"),
    (Sampling([block("tool_use", id="1", name="add", input=[])]), "$.messages[0].content[0].input"),
    (Sampling([block("tool_result")]), "$.messages[0].content[0].toolUseId"),
    (Sampling([block("tool_result", toolUseId="1", content="Hi")]), "$.messages[0].content[0].content"),
    (Sampling("Hi", system_prompt=5), "$.systemPrompt"),  # type: ignore[arg-type]
    (Sampling("Hi", temperature="warm"), "$.temperature"),  # type: ignore[arg-type]
    (Sampling("Hi", stop_sequences=[1]), "$.stopSequences[0]"),  # type: ignore[list-item]
    (Sampling("Hi", include_context="everything"), "$.includeContext"),
    (Sampling("Hi", metadata=[]), "$.metadata"),  # type: ignore[arg-type]
    (Sampling("Hi", model_preferences={"hints": {}}), "$.modelPreferences.hints"),
    (Sampling("Hi", model_preferences={"costPriority": "low"}), "$.modelPreferences.costPriority"),
    (Sampling("Hi", tools=[{"name": "add"}]), "$.tools[0].inputSchema"),
    (Sampling("Hi", tools=[{**TOOL, "description": 5}]), "$.tools[0].description"),
    (Sampling("Hi", tool_choice={"mode": "always"}), "$.toolChoice.mode"),
]

STRICTER: list[tuple[Any, str]] = [
    (Sampling("Hi", temperature="0.5"), "$.temperature"),  # type: ignore[arg-type] # the client receives text
    # No schema of MCP allows null.
    (Sampling("Hi", tool_choice={"mode": None}), "$.toolChoice.mode"),
    (Sampling("Hi", tools=[{**TOOL, "title": None}]), "$.tools[0].title"),
]
"""Requests that the official types accept, and that the schema of MCP rejects."""


def to_params(question: Any) -> dict[str, Any]:
    """Return the params of a question without validation."""
    from mcp_bridge._server.questions import requests as questions

    return questions._to_sampling_params(question, STATELESS)


@pytest.mark.parametrize("question", VALID)
def test_a_valid_sampling_request_is_sent(question: Sampling) -> None:
    params = to_request(question, STATELESS).params
    CreateMessageRequestParams.model_validate(params)


@pytest.mark.parametrize(("question", "place"), INVALID + STRICTER)
def test_an_invalid_sampling_request_is_an_error_that_names_the_place(question: Sampling, place: str) -> None:
    with pytest.raises(ValueError, match="the sampling request is not valid: ") as caught:
        to_request(question, STATELESS)
    assert f"{place}: " in str(caught.value)


@pytest.mark.parametrize("question", [question for question, _ in INVALID])
def test_the_official_types_reject_the_same_requests(question: Sampling) -> None:
    with pytest.raises(ValidationError):
        CreateMessageRequestParams.model_validate(to_params(question))


@pytest.mark.parametrize("question", [question for question, _ in STRICTER])
def test_the_official_types_accept_requests_that_the_schema_rejects(question: Sampling) -> None:
    CreateMessageRequestParams.model_validate(to_params(question))


# Links


def is_accepted(url: Any) -> bool:
    try:
        return to_request(Link("Open.", url), STATELESS).params["url"] == url
    except ValueError as error:
        return "the url of a Link must begin with https:// or http:// and name a host, found " not in str(error)


GOOD = [
    "https://example.com",
    "http://localhost:8080/a?b=c#d",
    "HTTPS://EXAMPLE.com/%20",
    "https://user@example.com/@a:b",
    "https://[::1]:443/",
    "https://127.0.0.1?x",
    "https://b\u00fccher.example/\u4e16",
]
BAD = [
    "", "example.com", "//example.com", "https:example.com", "https:/example.com", "https://", "https:///a", "https://?a",
    "https://:80", "https://a:b", "https://a:65536", "https://a:-1", "https://[::1", "https://a]b", "https://a%b",
    "https://exa mple.com", "https://a/b c", "https://a\n", "\thttps://a", "https://a/\x00", "https://a/\u2003",
    "https://a/\ud800", "https://a\\@b", "https://a/\\b", "javascript:alert(1)", "file:///etc/passwd", "ftp://a",
    None, 5, b"https://a", "https://" + "a" * 100_000 + " ",
]  # fmt: skip


@pytest.mark.parametrize("url", GOOD)
def test_the_url_of_a_web_page_is_sent_as_it_is(url: str) -> None:
    assert is_accepted(url)
    AnyHttpUrl(url)


@pytest.mark.parametrize("url", BAD, ids=lambda url: repr(url)[:30])
def test_what_is_not_the_url_of_a_web_page_is_rejected(url: Any) -> None:
    assert not is_accepted(url)


@given(st.text(":/?#@ab.%-_ \\", max_size=12).map("http://{}".format))
@example("http://a@b@c")
def test_every_accepted_url_is_one_for_pydantic_too(url: str) -> None:
    """The numbers of an address, and names beyond ASCII, are not checked here: browsers show why they do not open."""
    if is_accepted(url):
        AnyHttpUrl(url)

"""Matching of URIs with templates: the values of variables, as the official SDK reads them, in linear time."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from mcp.shared.uri_template import InvalidUriTemplate
from mcp.shared.uri_template import UriTemplate as OfficialTemplate

from mcp_bridge._json_schema.uri_templates import MAX_URI_LENGTH, MAX_VARIABLES, UriTemplate
from tests.kits.fuzzing import use_examples

LETTERS = "ab-./;?#&=,xé "


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("a://{b}/{c}", "a://1/2", {"b": "1", "c": "2"}),
        ("a://{b}/{c}", "a://1/2/3", None),
        ("a://{b}/{c}", "a:///", {"b": "", "c": ""}),
        ("a://{b}/{c}", "A://1/2", None),
        ("a://{b}", "a://x%2Fy%20z", {"b": "x/y z"}),
        ("a://{b}", "a://x,y", None),
        ("a://{b,c}", "a://x,y", {"b": "x", "c": "y"}),
        ("a://{b}-{c}", "a://1-2-3", {"b": "1-2", "c": "3"}),
        ("a://{b}-{c}/{+d}", "a://1-2-3/4", {"b": "1", "c": "2-3", "d": "4"}),
        ("a://{+b}", "a://x/y.z?q", None),
        ("a://{+b}/end", "a://x/end/end", {"b": "x/end"}),
        ("a://x{#b}", "a://x#y?z#1", {"b": "y?z#1"}),
        ("a://x{.b}", "a://x.tar.gz", None),
        ("a://x{/b*}", "a://x/1//2%2F3", {"b": ["1", "", "2/3"]}),
        ("a://x{/b*}", "a://x", {"b": []}),
        ("a://x{/b*}", "a://xy", None),
        ("a://x{;b}", "a://x;b=1", {"b": "1"}),
        ("a://x{;b}", "a://x;b", {"b": ""}),
        ("a://x{;b}", "a://x;bc=1", None),
        ("a://x{;b}/{+c}", "a://x;b/1", {"b": "", "c": "1"}),
        ("a://x{;b*}", "a://x;b=1;b;b=2=3", {"b": ["1", "", "2=3"]}),
        ("a://x{;b*}", "a://x;b=1;c=2", None),
        ("a://x{?b,c}", "a://x", {}),
        ("a://x{?b,c}", "a://x?c=2%26&d=3&b=1+1&c=4#b=5", {"b": "1+1", "c": "2&"}),
        ("a://x{?b}", "a://x?%62=1&b", {"b": ""}),
        ("a://x?y=1{&b}", "a://x?y=1&b=2", {"b": "2"}),
        ("a://x?y=1{&b}", "a://x?b=2&y=1", None),
        ("a://x{?b}/{c}", "a://x?b=1/2", {"b": "1", "c": "2"}),
    ],
)
def test_a_uri_gives_the_variables_of_its_template_their_values(template: str, uri: str, values: Any) -> None:
    assert UriTemplate(template).match(uri) == values


def test_a_template_that_cannot_be_matched_is_rejected() -> None:
    with pytest.raises(ValueError, match="nothing separates 'b' from 'c'"):
        UriTemplate("a://{b}{c}")


# The SDK's matcher as the oracle


@st.composite
def generate_templates(draw: st.DrawFn) -> str:
    """Generate mostly valid templates with distinct names."""
    names = iter("bcdefghijklmnopq")
    parts = []
    for operator in draw(st.lists(st.sampled_from([None, "", "+", "#", ".", "/", ";", "?", "&"]), max_size=5)):
        if operator is None:
            parts.append(draw(st.text("a-./;?#&=,x", min_size=1, max_size=3)))
            continue
        stars = draw(st.lists(st.sampled_from(["", "", "*"] if operator in (".", "/", ";") else [""]), min_size=1))
        parts.append("{" + operator + ",".join(next(names) + star for star in stars[:3]) + "}")
    return "a:x" + "".join(parts)


@st.composite
def generate_pairs(draw: st.DrawFn) -> tuple[str, str]:
    """Generate a valid template, and a URI that is its expansion or close to it."""
    template = draw(generate_templates())
    try:
        official = OfficialTemplate.parse(template)
    except InvalidUriTemplate:
        assume(False)
        raise
    text = st.text(LETTERS, max_size=4)
    values = {
        variable.name: draw(st.lists(text, max_size=3) if variable.explode else text)
        for variable in official.variables
        if draw(st.integers(0, 9))
    }
    uri = official.expand(values)
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(uri)))
        uri = uri[:place] + draw(st.text(LETTERS + "%2F", max_size=2)) + uri[place + draw(st.integers(0, 1)) :]
    return template, uri


@use_examples(500)
@given(generate_pairs() | st.tuples(generate_templates(), st.text(LETTERS).map("a:x{}".format)))
@example(("a:x{;b}", "a:x;b=;b"))
@example(("a:x{b}a:x", "a:xa:xa:x"))
@example(("a:x=;b{;b}=c{+d}", "a:x=;b;b=c=c"))
def test_a_uri_matches_as_it_does_with_the_sdk(pair: tuple[str, str]) -> None:
    template, uri = pair
    try:
        expected = OfficialTemplate.parse(template).match(uri)
    except InvalidUriTemplate:
        with pytest.raises(ValueError, match=r"."):
            UriTemplate(template)
    else:
        assert UriTemplate(template).match(uri) == expected


@given(st.text())
def test_any_text_can_be_matched(uri: str) -> None:
    for template in ("a:{b}", "a:{+b}", "a:x{;b*}", "a:x{?b}"):
        assert UriTemplate(template).match(uri) == OfficialTemplate.parse(template).match(uri)


# Hostile URIs


def test_a_uri_that_is_too_long_matches_nothing() -> None:
    template = UriTemplate("a:{b}")
    assert template.match("a:".ljust(MAX_URI_LENGTH, "x")) is not None
    assert template.match("a:".ljust(MAX_URI_LENGTH + 1, "x")) is None


@pytest.mark.parametrize("separator", ["-", "{;", "{.", "/"])
@pytest.mark.parametrize("end", ["", "{#end}", "z{/end*}", "{?end}"])
def test_no_uri_takes_long(separator: str, end: str) -> None:
    names = [f"v{number}" for number in range(MAX_VARIABLES - 1)]
    expressions = "".join(f"{separator}{name}}}" if "{" in separator else f"{separator}{{{name}}}" for name in names)
    template = UriTemplate("a:x" + expressions + end)
    began = time.process_time()
    for text in ("-", "x", "x-", ";v1", ";v1=", ";", "=", ".", "/", "%", "%2", "?v1=&", "\x00", "é"):
        template.match("a:x" + text * ((MAX_URI_LENGTH - 3) // len(text)))
    assert time.process_time() - began < 3.0

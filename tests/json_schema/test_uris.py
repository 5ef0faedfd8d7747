"""Equal spellings of URIs, and the patterns that match them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge._json_schema.uris import find_ambiguity, includes_uri, normalize_uri, quote_uri


@pytest.mark.parametrize(
    ("uri", "normalized"),
    [
        ("docs://caf%C3%A9/x", "docs://café/x"),
        ("docs://caf%c3%a9/x", "docs://café/x"),
        ("docs://my file", "docs://my%20file"),
        ("DOCS://Café", "docs://Café"),
        ("docs://%7Euser/%2e", "docs://~user/."),
        ("docs://a%2fb%3F%23%25", "docs://a%2Fb%3F%23%25"),
        ("docs://%2541", "docs://%2541"),
        ("docs://100%", "docs://100%25"),
        ("docs://%%34%31", "docs://%2541"),
        ("docs://%ff", "docs://%FF"),
        ("docs://%7Bx%7D/{y}", "docs://%7Bx%7D/{y}"),
    ],
)
def test_equal_uris_have_the_same_normal_form(uri: str, normalized: str) -> None:
    assert normalize_uri(uri) == normalized


@given(st.text(alphabet="a:/%2e5F.é {}\u0301A#?", max_size=20))
def test_the_form_of_a_form_is_the_same(uri: str) -> None:
    normal_form = normalize_uri(uri)
    assert normalize_uri(normal_form) == normal_form
    assert normalize_uri(quote_uri(normal_form)) == normal_form.replace("{", "%7B").replace("}", "%7D")


@pytest.mark.parametrize(
    ("pattern", "uri"),
    [
        ("docs://café/*", "docs://caf%C3%A9/x"),
        ("docs://caf%C3%A9/*", "docs://cafe\u0301/x"),
        ("docs://a/b", "docs://a/x/.././b"),
        ("docs://a/b", "docs://a/../../b"),
        ("docs:///a//b", "docs:////a/b"),
        ("docs:///a/b", "docs:///a%5Cb"),
    ],
)
def test_a_pattern_matches_each_spelling(pattern: str, uri: str) -> None:
    assert includes_uri([pattern], uri)
    assert not includes_uri(["*", f"!{pattern}"], uri)


def test_the_host_of_a_uri_is_not_a_folder() -> None:
    assert not includes_uri(["docs:///a"], "docs://a")
    assert not includes_uri(["docs://b"], "docs://a/../b")


@pytest.mark.parametrize("uri", ["a://x/./y", "a://x/%2E%2e", "a://x%00", "a://%C0%AF", "a://x?y=.%5Cz"])
def test_a_uri_that_programs_read_differently_is_ambiguous(uri: str) -> None:
    assert find_ambiguity(uri)


@pytest.mark.parametrize("uri", ["a://x/.y", "a://x/y..z", "a://x?y=https://z/", "a://é%C3%A9", "a://100%"])
def test_other_uris_are_not_ambiguous(uri: str) -> None:
    assert find_ambiguity(uri) is None

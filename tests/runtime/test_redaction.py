"""The redactor replaces secrets in text and data, and leaves everything else unchanged."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge._runtime.redaction import MARK, Redactor
from mcp_bridge._runtime.secret_forms import MIN_LENGTH

HARMLESS = st.characters(blacklist_categories=("Cs",), blacklist_characters=MARK)
SECRETS = st.text(HARMLESS, min_size=MIN_LENGTH, max_size=40).filter(lambda text: text.strip("0123456789.e+-") != "")
TEXTS = st.text(HARMLESS, max_size=40)
DATA: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(SECRETS, TEXTS, TEXTS)
def test_a_secret_is_replaced_and_the_text_around_it_stays(secret: str, before: str, after: str) -> None:
    redactor = Redactor([secret])
    assert redactor.redact_text(f"[{secret}]") == f"[{MARK}]"
    redacted_text = redactor.redact_text(f"{before}{secret}{after}")
    assert secret not in redacted_text
    assert MARK in redacted_text


@given(st.lists(SECRETS, max_size=4), DATA)
def test_data_without_a_secret_is_the_same_object(secrets: list[str], data: Any) -> None:
    redactor = Redactor(secrets)
    text = json.dumps(data, ensure_ascii=False)
    redacted_text = redactor.redact_value(data)
    if redacted_text is not data:
        assert MARK in json.dumps(redacted_text)
    assert redactor.redact_value(redacted_text) is redacted_text
    assert Redactor().redact_value(data) is data
    assert Redactor().redact_text(text) is text


@given(SECRETS, DATA)
def test_no_secret_is_left_at_any_depth_in_values_and_keys(secret: str, data: Any) -> None:
    planted = {"a": [data, {secret: {"x": f"<{secret}>"}}, [[secret]]], f"k{secret}": 1}
    redacted_text = json.dumps(Redactor([secret]).redact_value(planted), ensure_ascii=False)
    assert json.dumps(secret, ensure_ascii=False)[1:-1] not in redacted_text.replace(
        json.dumps(data, ensure_ascii=False), ""
    )
    assert redacted_text.count(MARK) >= 4


@given(st.binary(max_size=20), st.text(HARMLESS, min_size=10, max_size=40), st.binary(max_size=20))
def test_a_secret_is_found_at_any_position_in_base64(before: bytes, secret: str, after: bytes) -> None:
    data = before + secret.encode() + after
    for secret_text in (b64encode(data).decode(), urlsafe_b64encode(data).decode()):
        redacted_text = Redactor([secret]).redact_text(secret_text)
        assert MARK in redacted_text
        length = len(redacted_text.replace(MARK, ""))
        # A few bits of the first and the last byte may remain.
        assert length <= len(secret_text) - len(secret.encode()) * 4 // 3 + 3


def test_values_of_fewer_than_four_characters_are_not_redacted() -> None:
    assert Redactor(["", "a", "abc", "abcd"]).redact_text("a abc abcd") == f"a abc {MARK}"
    assert Redactor(["abc"]).is_empty


def test_the_longer_of_overlapping_secrets_is_replaced_first() -> None:
    assert Redactor(["token", "token-and-more"]).redact_text("token-and-more token") == f"{MARK} {MARK}"


def test_each_line_of_a_long_secret_is_redacted() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END KEY-----\n"
    framed = "\n".join(f"  | {line}" for line in key.splitlines())
    assert Redactor([key]).redact_text(framed) == "\n".join([f"  | {MARK}"] * 4)
    assert Redactor(["hunter2\n"]).redact_text("it is hunter2.") == f"it is {MARK}."


def test_only_numbers_that_contain_a_secret_are_replaced() -> None:
    redactor = Redactor(["12345678", "hunter2"])
    assert redactor.redact_value({"pin": 12345678, "n": 1234567, "no": True}) == {"pin": MARK, "n": 1234567, "no": True}
    assert redactor.redact_value([12345678.5]) == [MARK]
    numbers = [1, 2.5, None, True]
    assert redactor.redact_value(numbers) is numbers


def test_secrets_can_be_added_later() -> None:
    redactor = Redactor()
    assert redactor.is_empty
    redactor.add_secrets(["first-one"])
    redactor.add_secrets(["second-one"])
    assert redactor.redact_text("first-one second-one") == f"{MARK} {MARK}"

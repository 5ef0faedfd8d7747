"""The forms of secrets in other programs are recognised."""

from __future__ import annotations

import html
import json
import re
import string
import textwrap
import time
from base64 import b64encode, encodebytes, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge._runtime.redaction import MARK, Redactor
from mcp_bridge._server.redaction import SecretRedaction

KEY = 's3cr3t/+&= "k\'ey"\t<ü>`\\😀-w0rd'
UNESCAPED = f"{string.ascii_letters}{string.digits}_.-"


def escape_for_html(text: str) -> str:
    """Escape as encoders of .NET, Go and PHP do, with hexadecimal escapes for all characters with a meaning in HTML."""
    return re.sub(r"[<>&'\"+`]", lambda match: f"\\u{ord(match[0]):04X}", text)


def encode_uri_component(text: str) -> str:
    """Encode as JavaScript does."""
    return quote(text, safe="!'()*-._~")


def lowercase_escapes(text: str) -> str:
    return re.sub("%..", lambda match: match[0].lower(), text)


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "repr": repr,
    "repr of bytes": lambda text: repr(text.encode()),
    "ascii": ascii,
    "JSON": json.dumps,
    "JSON with all letters": lambda text: json.dumps(text, ensure_ascii=False),
    "JSON in JSON in JSON": lambda text: json.dumps(json.dumps(json.dumps(text))),
    "JSON of PHP": lambda text: json.dumps(text).replace("/", "\\/"),
    "JSON of Go": lambda text: json.dumps(text).replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e"),
    "JSON of .NET": lambda text: escape_for_html(text.replace("\\", "\\\\").replace("\t", "\\t")),
    "URL": quote,
    "URL without a safe character": lambda text: quote(text, safe=""),
    "form of a web page": quote_plus,
    "lower-case percent-encoding": lambda text: lowercase_escapes(quote(text, safe="")),
    "lower-case form of a web page": lambda text: lowercase_escapes(quote_plus(text)),
    "encodeURIComponent": encode_uri_component,
    "URL in a URL": lambda text: quote(quote(text, safe=""), safe=""),
    "HTML": html.escape,
    "HTML without quotes": lambda text: html.escape(text, quote=False),
    "HTML with decimal references": lambda text: "".join(
        letter if letter in UNESCAPED else f"&#{ord(letter)};" for letter in text
    ),
    "HTML with named references": lambda text: html.escape(text).replace("ü", "&uuml;").replace("&#x27;", "&apos;"),
    "HTML in JSON": lambda text: json.dumps(html.escape(text)),
    "base64": lambda text: b64encode(text.encode()).decode(),
    "base64 in lines": lambda text: encodebytes(b"x" * 50 + text.encode() + b"y" * 50).decode(),
    "base64 of a PEM file": lambda text: "\r\n".join(textwrap.wrap(b64encode(b"x" * 40 + text.encode()).decode(), 64)),
    "base64 in lines in JSON": lambda text: json.dumps(encodebytes(b"x" * 50 + text.encode() + b"y" * 50).decode()),
    "base64 in indented lines": lambda text: encodebytes(b"x" * 50 + text.encode()).decode().replace("\n", "\n    "),
    "base64 in JSON of PHP": lambda text: b64encode(text.encode()).decode().replace("/", "\\/"),
    "base64 in a URL": lambda text: quote(b64encode(text.encode()).decode(), safe=""),
    "base64 for URLs": lambda text: urlsafe_b64encode(text.encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_recognised_in_this_form(form: str) -> None:
    secret_text = FORMS[form](KEY)
    redacted_text = Redactor([KEY]).redact_text(f"before {secret_text} after")
    assert MARK in redacted_text
    assert not any(
        fragment in redacted_text for fragment in ("s3cr3t", "w0rd", "czNjcjN0", "AtdzByZ", "C13MHJ", "LXcwcm")
    )
    assert redacted_text.startswith("before ")
    assert redacted_text.endswith(" after")


@pytest.mark.parametrize("form", [form for form in FORMS if "base64" not in form])
@given(st.text(st.characters(codec="utf-8", min_codepoint=1), min_size=4, max_size=30))
def test_any_secret_is_recognised_in_this_form(form: str, secret: str) -> None:
    assert MARK in Redactor([secret]).redact_text(f"<{FORMS[form](secret)}>")


@given(st.binary(max_size=120), st.text(st.characters(codec="utf-8"), min_size=8, max_size=90), st.binary(max_size=80))
def test_any_secret_is_recognised_in_lines_of_base64(before: bytes, secret: str, after: bytes) -> None:
    assert MARK in Redactor([secret]).redact_text(encodebytes(before + secret.encode() + after).decode())


@pytest.mark.parametrize("unit", ["\\", '\\"', "\\\n", "&", "%", " \t"])
def test_text_with_a_near_match_is_searched_in_linear_time(unit: str) -> None:
    secret = unit * 30 + "x"
    redactor = Redactor([secret])
    for text in (secret[:-1], "\\", '\\\\"', "\\\\n", "&amp;", "%25", " ", "\\\\\\\\\n", "A\n"):
        began = time.process_time()
        redactor.redact_text("x" + text * (200_000 // len(text)))
        assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("url", "password"),
    [
        ("postgres://app:s3cr3t-word@db.example/x", "s3cr3t-word"),
        ("amqp://app:p%40ss%2Fword@db.example", "p@ss/word"),
        ("amqp://app:p%40ss%2Fword@db.example", "p%40ss%2Fword"),
        ("redis://:s3cr3t@word@db.example:6379/0", "s3cr3t@word"),
        ("--dsn=postgresql+psycopg://app:hunter2@db.example/x?sslmode=require", "hunter2"),
    ],
)
def test_the_password_in_a_url_is_a_secret_too(url: str, password: str) -> None:
    redactor = Redactor([url])
    assert redactor.redact_text(f"wrong password {password!r}") == f"wrong password '{MARK}'"
    assert redactor.redact_text(f"<{url}>") == f"<{MARK}>"
    assert redactor.redact_text("db.example app") == "db.example app"


def test_a_password_in_a_url_that_is_a_word_of_the_protocol_stays() -> None:
    redaction = SecretRedaction()
    redaction.hide(["https://me:content@example.org/a/path"])
    result = {"content": [{"type": "text", "text": "https://me:content@example.org/a/path"}]}
    assert redaction.redact_result(result) == {"content": [{"type": "text", "text": MARK}]}

"""A difference shows the edit, and of its neighbours nothing."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge.clients.difference import MARK, unified

PATH = Path("file.json")


def body(text: str) -> list[str]:
    return text.splitlines()[2:]


def test_lines_that_are_put_in_are_shown_whole() -> None:
    assert body(unified(PATH, "a\nb\n", "a\nnew\nb\n")) == ["@@ -2,0 +2,1 @@", "+new"]


def test_lines_that_are_taken_out_are_shown_whole() -> None:
    assert body(unified(PATH, "a\nold\nb\n", "a\nb\n")) == ["@@ -2,1 +2,0 @@", "-old"]


def test_of_a_line_that_is_changed_only_the_change_is_shown() -> None:
    old, new = '{"a":{"key":"secret"}}', '{"a":{"key":"secret"},"b":{}}'
    assert body(unified(PATH, old, new)) == ["@@ -1,1 +1,1 @@", f"-{MARK}", f'+{MARK},"b":{{}}{MARK}']


def test_a_changed_line_of_known_words_is_shown_whole() -> None:
    old, new = '  "args": ["serve", "/a.py"],\n', '  "args": ["serve", "/b.py"],\n'
    shown = body(unified(PATH, old, new, known=["args", "serve", "/b.py"]))
    assert shown == ["@@ -1,1 +1,1 @@", f"-{MARK}", '+  "args": ["serve", "/b.py"],']


def test_what_is_hidden_is_not_shown_where_it_is_taken_out() -> None:
    shown = unified(PATH, 'a\n"env": {"K": "secret \\"x\\""}\n', "a\n", hidden=['secret "x"'])
    assert "secret" not in shown
    assert '"env"' in shown


@given(st.text('ab\n{}":, ', max_size=30), st.text('ab\n{}":, ', max_size=30), st.integers(0, 30))
def test_a_secret_beside_an_insertion_is_never_shown(text: str, more: str, at: int) -> None:
    secret = "S3CRET"
    old = f"{secret} {text} {secret}"
    at = len(secret) + min(at, len(text))
    shown = unified(PATH, old, old[:at] + more + old[at:])
    assert secret not in shown

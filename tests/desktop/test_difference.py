"""A difference shows the edit, and of its neighbours nothing."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge._desktop.entry_display import REDACTION_MARK, render_unified_diff

PATH = Path("file.json")


def body(text: str) -> list[str]:
    return text.splitlines()[2:]


def test_lines_that_are_put_in_are_shown_whole() -> None:
    assert body(render_unified_diff(PATH, "a\nb\n", "a\nnew\nb\n", known=["new"])) == ["@@ -2,0 +2,1 @@", "+new"]


def test_lines_that_are_taken_out_are_shown_whole() -> None:
    assert body(render_unified_diff(PATH, "a\nold\nb\n", "a\nb\n", known=["old"])) == ["@@ -2,1 +2,0 @@", "-old"]


def test_a_comma_and_an_entry_behind_a_comment_do_not_show_the_comment() -> None:
    old, new = '{\n"a": 1 // hunter2\n}', '{\n"a": 1, // hunter2\n"b": "new"\n}'
    shown = body(render_unified_diff(PATH, old, new, known=["a", "b", "new"]))
    assert shown == [
        "@@ -2,1 +2,2 @@",
        f'-"a": {REDACTION_MARK} // {REDACTION_MARK}',
        f'+"a": {REDACTION_MARK}, // {REDACTION_MARK}',
        '+"b": "new"',
    ]


def test_of_a_line_that_is_changed_only_known_words_are_shown() -> None:
    old, new = '{"a":{"key":"secret"}}', '{"a":{"key":"secret"},"b":{}}'
    assert body(render_unified_diff(PATH, old, new, known=["b"])) == [
        "@@ -1,1 +1,1 @@",
        f'-{{"{REDACTION_MARK}":{{{REDACTION_MARK}}}}}',
        f'+{{"{REDACTION_MARK}":{{{REDACTION_MARK}}},"b":{{}}}}',
    ]


def test_a_changed_line_of_known_words_is_shown_whole() -> None:
    old, new = '  "args": ["serve", "/a.py"],\n', '  "args": ["serve", "/b.py"],\n'
    shown = body(render_unified_diff(PATH, old, new, known=["args", "serve", "/b.py"]))
    assert shown == ["@@ -1,1 +1,1 @@", f'-  "args": ["serve", "{REDACTION_MARK}"],', '+  "args": ["serve", "/b.py"],']


def test_a_known_word_shows_nothing_of_a_longer_one() -> None:
    shown = render_unified_diff(PATH, "", '"demo-hunter2": "/demo/hunter2"', known=["demo", "/demo"])
    assert "hunter2" not in shown
    assert "demo" not in shown


@given(st.text('ab\n{}":, ', max_size=30), st.text('ab\n{}":, ', max_size=30), st.integers(0, 30))
def test_a_secret_beside_an_insertion_is_never_shown(text: str, more: str, at: int) -> None:
    secret = "S3CRET"
    old = f"{secret} {text} {secret}"
    at = len(secret) + min(at, len(text))
    shown = render_unified_diff(PATH, old, old[:at] + more + old[at:], known=["a", "ab"])
    assert secret not in shown

"""A question shows the whole call, even if its caller tries to hide a part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._policies.approvals.shown_call import MAX_SHOWN, escape_invisible, show_arguments
from mcp_bridge.testing import connect
from tests.kits.constants import EVERY_ERA
from tests.kits.hooks.hooks_kit import ScriptedUser, get_code, get_texts
from tests.kits.policies.policies_kit import build_bridge

TOOL = """
from mcp_bridge import tool


@tool
def run(cmd: str, note: str = "", options: dict[str, str] | None = None) -> str:
    \"\"\"Run a command.\"\"\"
    return f"ran {cmd}"
"""


def serve(folder: Path, **approvals: Any) -> Any:
    """Serve a tool with approval by the user."""
    (folder / "tools.py").write_text(TOOL)
    approvals = {"remember": False, "terminal": False, **approvals}
    return build_bridge(folder, {"type": "python", "path": "tools.py"}, "approval", approvals=approvals)


@EVERY_ERA
async def test_short_arguments_are_shown_before_long_ones(tmp_path: Path, mode: str) -> None:
    user = ScriptedUser("Allow once")
    async with connect(serve(tmp_path), mode=mode, elicitation_callback=user) as client:
        arguments = {"note": "x" * 9_000, "options": {"a b": "1\n2"}, "cmd": "rm -rf /"}
        assert get_texts(await client.call_tool("run", arguments)) == ["ran rm -rf /"]
    assert user.asked[0].message.split("\n") == [
        "Allow the tool 'run' to run?",
        '- options."a b" (length 3): "1\\n2"',
        '- cmd (length 8): "rm -rf /"',
        f'- note (length 9,000): "{"x" * 9_000}"',
    ]


@EVERY_ERA
async def test_invisible_characters_are_escaped_in_the_question(tmp_path: Path, mode: str) -> None:
    user = ScriptedUser("Deny")
    async with connect(serve(tmp_path), mode=mode, elicitation_callback=user) as client:
        await client.call_tool("run", {"cmd": "ls\u202e\u200b\u3164\U000e0041\x1b[2K \u00a0 caf\u00e9"})
    assert r'"ls\u202e\u200b\u3164\udb40\udc41\u001b[2K \u00a0 café"' in user.asked[0].message


@EVERY_ERA
async def test_a_call_that_cannot_be_shown_whole_is_denied_without_a_question(tmp_path: Path, mode: str) -> None:
    user = ScriptedUser("Allow once")
    async with connect(serve(tmp_path), mode=mode, elicitation_callback=user) as client:
        result = await client.call_tool("run", {"note": "x" * 50_000, "cmd": "rm -rf /"})
    assert (get_code(result), user.asked) == ("approval_declined", [])
    assert "a question shows at most 10,000 characters of a call" in get_texts(result)[0]
    assert "approvals.truncate: true" in get_texts(result)[0]


async def test_with_the_setting_the_longest_values_are_truncated(tmp_path: Path) -> None:
    user = ScriptedUser("Allow once")
    async with connect(serve(tmp_path, truncate=True), elicitation_callback=user) as client:
        arguments = {"note": "x" * 50_000, "options": {"a": "y" * 3_000}, "cmd": "rm -rf /"}
        assert get_texts(await client.call_tool("run", arguments)) == ["ran rm -rf /"]
    _, cmd, option, note, _ = user.asked[0].message.split("\n")
    assert (cmd, option) == ('- cmd (length 8): "rm -rf /"', f'- options.a (length 3,000): "{"y" * 3_000}"')
    assert note.startswith("- note (length 50,000): ")
    assert note.endswith("x … truncated")
    assert len(user.asked[0].message) < MAX_SHOWN + 100


@pytest.mark.parametrize("count", [2, 999, 5_000])
def test_a_question_shows_that_arguments_are_left_out(count: int) -> None:
    arguments = {**{f"k{number}": number for number in range(count)}, "cmd": "rm -rf /"}
    text_shown = show_arguments(arguments)
    assert len(text_shown.text) < MAX_SHOWN + 100
    assert '"rm -rf /"' in text_shown.text or not text_shown.is_whole
    assert text_shown.text.endswith("(not everything is shown)") is not text_shown.is_whole


def test_the_name_of_an_argument_cannot_look_like_another_line() -> None:
    text_shown = show_arguments({'x": 1\n- cmd (length 2): "ls"\n': "y", "a\u200b": "z", "": 1})
    assert len(text_shown.text.split("\n")) == 3
    assert r'"a\u200b" (length 1)' in text_shown.text


def test_values_that_are_not_json_are_shown_too() -> None:
    cycle: dict[str, Any] = {}
    cycle["itself"] = cycle
    assert "object" in show_arguments({"value": object()}).text
    assert show_arguments("text").text == '- value (length 4): "text"'
    assert not show_arguments({"a": cycle, "b": cycle}).is_whole


def test_an_escaped_text_is_the_same_json() -> None:
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x11000), 0xE0041]))
    assert json.loads(escape_invisible(json.dumps(text, ensure_ascii=False))) == text

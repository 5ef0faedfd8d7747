"""`redact`: the patterns, and all places with texts."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._policies.secret_patterns import PATTERNS
from mcp_bridge.testing import connect
from tests.kits.cli.cli_running import run
from tests.kits.policies.policies_kit import build_bridge, call, open_tools

EXAMPLES = {
    "anthropic_key": "sk-ant-api03-abcdefghijklmnopqrst",
    "aws_access_key": "AKIAIOSFODNN7EXAMPLE",
    "bearer_token": "Bearer abcdefghijklmnop0123",
    "github_token": f"ghp_{'a1' * 18}",
    "gitlab_token": "glpat-abcdefghijklmnopqrst",
    "google_api_key": f"AIza{'a' * 35}",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0abc.c2lnbmF0dXJl",
    "npm_token": f"npm_{'a' * 36}",
    "openai_key": f"sk-proj-{'a' * 40}",
    "private_key": "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----",
    "pypi_token": f"pypi-{'A' * 60}",
    "slack_token": "xoxb-123456789012-abcdef",
    "stripe_key": "sk_live_abcdefghijklmnop",
    "url_password": "postgres://ann:hunter2@",
    "credit_card": "4111 1111 1111 1111",
    "email": "ada.lovelace@example.org",
    "iban": "DE89 3704 0044 0532 0130 00",
    "us_ssn": "078-05-1120",
}
RESULTS = '''
from mcp_bridge import Text, ToolError
from mcp_bridge._contracts.content import EmbeddedResource, ResourceLink

MAIL = "ada@example.org"


@tool
def structured() -> dict:
    """A mapping."""
    return {MAIL: [MAIL, {"number": 4111111111111111, "small": 7, "flag": True}]}


@tool
def content():
    """Blocks."""
    meta = {"by": MAIL}
    return [
        Text(MAIL, meta=meta),
        EmbeddedResource("notes://1", MAIL, resource_meta=meta),
        ResourceLink(f"notes://{MAIL}", MAIL, description=MAIL),
        b"x",
    ]


@tool
def failing() -> str:
    """Fail."""
    raise ToolError(f"unknown: {MAIL}")


@tool
async def talking(ctx: CallContext) -> str:
    """Report."""
    await ctx.report_progress(1, message=f"asking {MAIL}")
    await ctx.log("warning", f"slow: {MAIL}", f"logger of {MAIL}")
    return "done"


@tool
async def nested(ctx: CallContext) -> str:
    """Call another tool."""
    return str((await ctx.invoke("talking")).output)


@tool
def echo(text: str) -> str:
    """Return it reversed."""
    return text[::-1]


@resource("notes://{title}")
def note(title: str) -> str:
    """A note."""
    return f"{title} by {MAIL}"


@prompt
def write() -> str:
    """A prompt."""
    return f"Write to {MAIL}."
'''
EMAILS = {"redact": {"patterns": ["email", "credit_card"]}}
MARK = "[redacted email]"


def test_every_named_pattern_has_an_example() -> None:
    assert EXAMPLES.keys() == PATTERNS.keys()


@pytest.mark.parametrize("name", PATTERNS)
async def test_a_named_pattern_finds_its_kind_of_secret(tmp_path: Path, name: str) -> None:
    code = f"@tool\ndef read() -> str:\n    return {f'before {EXAMPLES[name]} after'!r}"
    async with open_tools(tmp_path, code, {"redact": {"patterns": name}}) as bridge:
        assert (await call(bridge, "read")).output == f"before [redacted {name}] after"


@pytest.mark.parametrize(
    "text", ["4111 1111 1111 1112", "an ordinary text", "sk-short", "ghp_short", "10.0.0.1", "a@b"]
)
async def test_ordinary_text_is_not_redacted(tmp_path: Path, text: str) -> None:
    policy = {"redact": {"patterns": list(PATTERNS)}}
    async with open_tools(tmp_path, f"@tool\ndef read() -> str:\n    return {text!r}", policy) as bridge:
        assert (await call(bridge, "read")).output == text


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("4111 1111 1111 1111 123", "[redacted credit_card] 123"),
        ("4111111111111111 12 27", "[redacted credit_card] 12 27"),
        ("order 1234 4111 1111 1111 1111", "order 1234 [redacted credit_card]"),
        ("2 x 3782-822463-10005", "2 x [redacted credit_card]"),
        ("41111111 11111111", "[redacted credit_card]"),
    ],
)
async def test_a_card_number_is_found_between_other_digits(tmp_path: Path, text: str, redacted: str) -> None:
    code = f"@tool\ndef read() -> str:\n    return {text!r}"
    async with open_tools(tmp_path, code, {"redact": {"patterns": "credit_card"}}) as bridge:
        assert (await call(bridge, "read")).output == redacted


async def test_keys_that_become_equal_are_numbered(tmp_path: Path) -> None:
    code = "@tool\ndef count() -> dict:\n    return {'ada@x.org': 1, 'bob@x.org': 2}"
    async with open_tools(tmp_path, code, EMAILS) as bridge:
        assert (await call(bridge, "count")).output == {MARK: 1, f"{MARK} 2": 2}


async def test_results_of_every_kind_are_redacted(tmp_path: Path) -> None:
    async with open_tools(tmp_path, RESULTS, EMAILS) as bridge:
        output = (await call(bridge, "structured")).output
        assert output == {MARK: [MARK, {"number": "[redacted credit_card]", "small": 7, "flag": True}]}
        text, resource, link, _ = (await call(bridge, "content")).content or ()
        assert (text.text, resource.content, link.name, link.description) == (MARK, MARK, MARK, MARK)
        assert (resource.uri, link.uri) == ("notes://1", "notes://%5Bredacted%20email%5D")
        assert (text.meta, resource.resource_meta) == ({"by": MARK}, {"by": MARK})
        assert (await call(bridge, "failing")).error_text == f"unknown: {MARK}"


@pytest.mark.parametrize("tool", ["talking", "nested"])
async def test_progress_and_log_messages_are_redacted(tmp_path: Path, tool: str) -> None:
    (tmp_path / "tools.py").write_text(f"from mcp_bridge import CallContext, tool, resource, prompt\n{RESULTS}")
    messages: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message)

    async def on_log(params: Any) -> None:
        messages.append((params.logger, params.data))

    bridge = build_bridge(tmp_path, {"type": "python", "path": "tools.py"}, EMAILS)
    async with connect(bridge, mode="legacy", logging_callback=on_log) as client:
        await client.call_tool(tool, {}, progress_callback=on_progress)
    assert f"asking {MARK}" in messages
    assert (f"logger of {MARK}", f"slow: {MARK}") in messages


async def test_a_tool_gets_a_redacted_meta_of_the_request_with_this_setting(tmp_path: Path) -> None:
    code = "@tool\nasync def show(ctx: CallContext) -> str:\n    'Return a field.'\n    return ctx.meta['from'][::-1]"
    (tmp_path / "tools.py").write_text(f"from mcp_bridge import CallContext, tool\n{code}")
    policy = {"redact": {"patterns": "email", "apply_to": "arguments"}}
    bridge = build_bridge(tmp_path, {"type": "python", "path": "tools.py"}, policy)
    async with connect(bridge) as client:
        result = await client.call_tool("show", {}, meta={"from": "ada@example.org"})
    assert result.content[0].text == MARK[::-1]


async def test_resources_and_prompts_are_redacted(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(f"from mcp_bridge import CallContext, tool, resource, prompt\n{RESULTS}")
    bridge = build_bridge(tmp_path, {"type": "python", "path": "tools.py"}, EMAILS)
    async with connect(bridge) as client:
        assert (await client.read_resource("notes://today")).contents[0].text == f"today by {MARK}"
        assert (await client.get_prompt("write")).messages[0].content.text == f"Write to {MARK}."


async def test_a_tool_gets_redacted_arguments_only_with_this_setting(tmp_path: Path) -> None:
    async with open_tools(tmp_path, RESULTS, {"redact": {"patterns": "email", "apply_to": "arguments"}}) as bridge:
        assert (await call(bridge, "echo", text="ada@example.org")).output == MARK[::-1]
    async with open_tools(tmp_path, RESULTS, EMAILS) as bridge:
        assert (await call(bridge, "echo", text="ada@example.org")).output == "gro.elpmaxe@ada"


async def test_the_log_of_calls_is_redacted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcp_bridge.calls")
    async with open_tools(tmp_path, RESULTS, EMAILS) as bridge:
        await call(bridge, "echo", text="ada@example.org, 4111111111111111")
    assert f'{{"text":"{MARK}, [redacted credit_card]"}}' in caplog.text
    assert "ada@example" not in caplog.text


async def test_a_result_that_no_longer_matches_its_schema_fails(tmp_path: Path) -> None:
    code = (
        "from pydantic import BaseModel, Field\n"
        "class Mail(BaseModel):\n    address: str = Field(max_length=15)\n"
        '@tool\ndef read() -> Mail:\n    return Mail(address="ada@example.org")'
    )
    async with open_tools(tmp_path, code, EMAILS) as bridge:
        result = await call(bridge, "read")
    assert result.code == "invalid_output"
    assert "the policy 'redact' changed its result" in result.error_text
    assert "ada@" not in str(result)


async def test_custom_patterns_have_names(tmp_path: Path) -> None:
    policy = {"redact": {"patterns": [], "custom": {"employee": r"\bE-\d{4}\b"}}}
    async with open_tools(tmp_path, "@tool\ndef read() -> str:\n    return 'E-1234 and E-12'", policy) as bridge:
        assert (await call(bridge, "read")).output == "[redacted employee] and E-12"


async def test_anchors_match_the_beginning_and_the_end_of_each_text(tmp_path: Path) -> None:
    policy = {"redact": {"patterns": "bearer_token", "custom": {"pin": r"^\d{4}$"}}}
    texts = ["1234", "12345", "a bearer", "abcdefghijklmnop0123"]
    async with open_tools(tmp_path, f"@tool\ndef read() -> list:\n    return {texts}", policy) as bridge:
        assert (await call(bridge, "read")).output == ["[redacted pin]", *texts[1:]]


async def test_texts_that_match_only_when_joined_are_not_redacted(tmp_path: Path) -> None:
    texts = ["a bearer", "abcdefghijklmnop0123"]
    policy = {"redact": {"patterns": "bearer_token"}}
    async with open_tools(tmp_path, f"@tool\ndef read() -> list:\n    return {texts}", policy) as bridge:
        assert (await call(bridge, "read")).output == texts


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"patterns": "emails"}, "policy[0].redact.patterns: expected one of secrets, anthropic_key"),
        ({"custom": {"x": "(?=a)"}}, "expected a pattern of RE2 (no look-around, no back-references)"),
        ({"custom": {"x": "a*"}}, "expected patterns that do not match the empty text"),
        ({"patterns": []}, "expected `patterns` or `custom`, found neither"),
    ],
)
def test_unusable_patterns_are_errors_with_their_place(tmp_path: Path, options: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_bridge(tmp_path, {"type": "python", "path": "tools.py"}, {"redact": options})
    assert problem in str(caught.value)


MESSAGES = """
from dataclasses import dataclass
from mcp_bridge import CallContext, tool

@dataclass
class Mail:
    sender: str

@tool
async def inner(ctx: CallContext) -> str:
    await ctx.report_progress(1, message="mail of ada@example.org")
    await ctx.log("info", Mail("ada@example.org"), "ada@example.org")
    return "done"

@tool
async def outer(ctx: CallContext) -> str:
    return (await ctx.invoke("inner", {})).output
"""


async def test_a_policy_for_a_nested_tool_redacts_all_of_its_messages(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(MESSAGES)
    messages: list[Any] = []

    async def on_log(params: Any) -> None:
        messages.append((params.logger, params.data))

    policy = {"redact": {"patterns": "email", "tools": "inner"}}
    bridge = build_bridge(tmp_path, {"type": "python", "path": "tools.py"}, policy)
    async with connect(bridge, mode="legacy", logging_callback=on_log) as client:
        await client.call_tool("outer", {})
    assert messages == [(MARK, {"sender": MARK})]


def test_the_command_call_prints_redacted_messages(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(MESSAGES)
    settings = {"sources": [{"type": "python", "path": "tools.py"}], "policy": [EMAILS]}
    (tmp_path / "b.json").write_text(json.dumps(settings))
    process = run("call", "b.json", "inner", cwd=tmp_path)
    assert process.out == "done\n"
    assert process.err == f'mail of {MARK} (1)\ninfo: {{"sender":"{MARK}"}}\n'

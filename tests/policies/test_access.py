"""`allow` and `deny`: the selected calls and principals, and calls to resources and prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import PromptReference, ResourceTemplateReference

from mcp_bridge.testing import connect
from tests.kits.policies.policies_kit import build_bridge, call, open_tools

PROMPT = PromptReference(name="write")
TEMPLATE = ResourceTemplateReference(uri="notes://{title}")
NOTES = '''
@tool(tags=["notes"], annotations={"readOnlyHint": True})
def read_note() -> str:
    """Read."""
    return "a note"


@tool(tags=["notes", "changes"])
def delete_note() -> str:
    """Delete."""
    return "deleted"


@tool(annotations={"destructiveHint": False})
async def tidy(ctx: CallContext) -> str:
    """Call another tool."""
    return str((await ctx.invoke("delete_note")).code)
'''
OTHERS = '''
@resource("notes://index")
def index() -> str:
    """All."""
    return "index"


@resource("notes://{title}", completions={"title": ["today"]})
def note(title: str) -> str:
    """One."""
    return title


@prompt(completions={"topic": lambda typed: ["cats"]})
def write(topic: str) -> str:
    """Write."""
    return topic
'''


async def list_allowed(folder: Path, *policy: Any, principal: str | None = None) -> list[str]:
    names = ["read_note", "delete_note", "tidy"]
    async with open_tools(folder, NOTES, *policy) as bridge:
        return [name for name in names if (await call(bridge, name, principal)).code != "denied"]


@pytest.mark.parametrize(
    ("selection", "matching"),
    [
        ({}, ["read_note", "delete_note", "tidy"]),
        ({"tools": "*_note"}, ["read_note", "delete_note"]),
        ({"tools": ["!read_*"]}, ["delete_note", "tidy"]),
        ({"tools": ["*_note", "!read_*"]}, ["delete_note"]),
        ({"tags": ["changes"]}, ["delete_note"]),
        ({"tags": ["!notes"]}, ["tidy"]),
        ({"tags": "notes", "tools": "read*"}, ["read_note"]),
        ({"tags": "*"}, ["read_note", "delete_note"]),
        ({"annotations": {"readOnlyHint": True}}, ["read_note"]),
        # A tool that declares nothing may be destructive, unless it is read-only (server/tools, ToolAnnotations).
        ({"annotations": {"destructiveHint": True}}, ["delete_note"]),
        ({"annotations": {"idempotentHint": False, "destructiveHint": False}}, ["read_note", "tidy"]),
        ({"resources": "*"}, []),
        ({"principals": "ann"}, []),
        ({"principals": ""}, ["read_note", "delete_note", "tidy"]),
    ],
)
async def test_a_policy_applies_to_calls_that_match_each_of_its_keys(
    tmp_path: Path, selection: Any, matching: list[str]
) -> None:
    assert await list_allowed(tmp_path, {"allow": selection}) == matching
    different_names = [name for name in ("read_note", "delete_note", "tidy") if name not in matching]
    assert await list_allowed(tmp_path, {"deny": selection}) == different_names


async def test_deny_wins_over_allow_and_allow_items_add_up(tmp_path: Path) -> None:
    policy = [{"deny": {"tools": "delete_*"}}, {"allow": {"tools": "*_note"}}, {"allow": {"tools": "tidy"}}]
    assert await list_allowed(tmp_path, *policy) == ["read_note", "tidy"]


async def test_rules_for_principals_leave_the_other_callers_alone(tmp_path: Path) -> None:
    policy = [{"allow": {"principals": "*", "tools": "read_*"}}, {"allow": {"principals": ["admin-*"]}}]
    assert await list_allowed(tmp_path, *policy) == ["read_note"]
    assert await list_allowed(tmp_path, *policy, principal="guest") == ["read_note"]
    assert len(await list_allowed(tmp_path, *policy, principal="admin-ann")) == 3


async def test_calls_that_a_tool_makes_are_under_the_same_policy(tmp_path: Path) -> None:
    async with open_tools(tmp_path, NOTES, {"deny": {"tools": "delete_*"}}) as bridge:
        assert (await call(bridge, "tidy")).output == "denied"
        assert (await call(bridge, "delete_note", "ann")).error_text == (
            "Tool 'delete_note' was denied: the settings of this server deny it for the principal 'ann'. "
            "Do not retry this call."
        )


@pytest.mark.parametrize(
    "selection", [{}, {"resources": "notes://*", "prompts": "write"}, {"resources": "*", "prompts": "*"}]
)
async def test_resources_prompts_and_completions_can_be_denied(tmp_path: Path, selection: Any) -> None:
    (tmp_path / "tools.py").write_text(f"from mcp_bridge import resource, prompt\n{OTHERS}")
    bridge = build_bridge(tmp_path, {"type": "python", "path": "tools.py"}, {"deny": selection})
    async with connect(bridge) as client:
        requests = [
            lambda: client.read_resource("notes://index"),
            lambda: client.read_resource("notes://today"),
            lambda: client.get_prompt("write", {"topic": "cats"}),
        ]
        for request in requests:
            with pytest.raises(MCPError, match="was denied"):
                await request()
        with pytest.raises(MCPError, match="was denied"):
            await client.complete(PROMPT, {"name": "topic", "value": "c"})


async def test_a_pattern_of_uris_decides_for_each_uri_of_a_template(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(f"from mcp_bridge import resource, prompt\n{OTHERS}")
    bridge = build_bridge(tmp_path, {"type": "python", "path": "tools.py"}, {"deny": {"resources": "notes://secret*"}})
    async with connect(bridge) as client:
        assert (await client.read_resource("notes://today")).contents
        assert (await client.get_prompt("write", {"topic": "cats"})).messages
        assert (await client.complete(PROMPT, {"name": "topic", "value": "c"})).completion.values == ["cats"]
        # Both spellings have the same value of the variable.
        for uri in ("notes://secret-plan", "notes://%73ecret-plan"):
            with pytest.raises(MCPError, match="was denied"):
                await client.read_resource(uri)


PATHS = '''
from mcp_bridge import resource


@resource("note:///{+path}")
def read_path(path: str) -> str:
    """Read a file."""
    return f"read {path}"


@resource("step://root{/steps*}")
def read_steps(steps: list[str]) -> str:
    """Read a file."""
    return "read " + "/".join(steps)


@resource("query://read{?lang,name}")
def read_query(name: str = "", lang: str = "") -> str:
    """Read a file."""
    return f"read {name}"


@resource("fixed:///private/key")
def key() -> str:
    """Return a key."""
    return "read private/key"
'''
SPELLINGS = [
    "note:///private/key",
    "note:///private//key",
    "note:////private/key",
    "note:///./private/key",
    "note:///%2e/private/key",
    "note:///.%2Fprivate/key",
    "note:///.%5Cprivate/key",
    "note:///x/../private/key",
    "note:///x/%2e%2E/private/key",
    "note:///private/./key",
    "note:///private%2Fkey",
    "note:///%70rivate/key",
    "note:///%2Fprivate/key",
    "note:///private%00/key",
    "note:///private%C0%AFkey",
    "NOTE:///private/key",
    "note:///private/key#x",
    "note:///private/key?x=1",
    "step://root/private/key",
    "step://root/./private/key",
    "step://root//private/key",
    "step://root/private//key",
    "step://root/private%2Fkey",
    "query://read?name=private/key",
    "query://read?name=./private/key",
    "query://read?name=%2e%2fprivate%2fkey",
    "query://read?x=1&name=private/key",
    "query://read?name=private/key&lang=en",
    "query://read?name=private/key#x",
    "fixed:///private/key",
    "fixed:///private/%6Bey",
    "FIXED:///private/key",
]


@pytest.mark.parametrize("uri", SPELLINGS)
async def test_no_spelling_of_a_uri_passes_a_policy(tmp_path: Path, uri: str) -> None:
    (tmp_path / "tools.py").write_text(PATHS)
    denied_patterns = [
        "note:///private/*",
        "step://root/private/*",
        "query://read?*name=private/key",
        "fixed:///private/*",
    ]
    source = {"type": "python", "path": "tools.py"}
    bridge = build_bridge(tmp_path, source, {"deny": {"resources": denied_patterns}}, entries_as_tools=True)
    async with connect(bridge) as client:
        with pytest.raises(MCPError, match=r"was denied|not found"):
            await client.read_resource(uri)
        result = await client.call_tool("read_resource", {"uri": uri})
        assert result.is_error


@pytest.mark.parametrize("uri", [uri for uri in SPELLINGS if "." in uri or "%2e" in uri])
async def test_an_ambiguous_uri_is_rejected_with_the_reason(tmp_path: Path, uri: str) -> None:
    (tmp_path / "tools.py").write_text(PATHS)
    async with connect(build_bridge(tmp_path, {"type": "python", "path": "tools.py"})) as client:
        with pytest.raises(MCPError, match=r"is a step of its path. Write the path without it"):
            await client.read_resource(uri)


@pytest.mark.parametrize(
    "uri", ["note:///private/a", "note:///private/%61", "note:///private//a", "NOTE:///private/a".lower()]
)
async def test_every_spelling_of_an_allowed_uri_is_read(tmp_path: Path, uri: str) -> None:
    (tmp_path / "tools.py").write_text(PATHS)
    policy = {"allow": {"resources": "note:///private/*"}}
    async with connect(build_bridge(tmp_path, {"type": "python", "path": "tools.py"}, policy)) as client:
        assert (await client.read_resource(uri)).contents
        with pytest.raises(MCPError, match="was denied"):
            await client.read_resource("note:///private")


@pytest.mark.parametrize(
    ("policy", "is_prompt_allowed", "is_template_allowed"),
    [
        ({"allow": {"prompts": "*"}}, True, False),
        ({"allow": {"resources": "*"}}, False, True),
        ({"deny": {"resources": "!public://*"}}, True, False),
        ({"deny": {"prompts": "!public_*"}}, False, True),
        ({"allow": {"tools": "*"}}, False, False),
    ],
)
async def test_completions_are_denied_with_the_prompt_or_resource_that_they_complete(
    tmp_path: Path, policy: Any, is_prompt_allowed: bool, is_template_allowed: bool
) -> None:
    (tmp_path / "tools.py").write_text(f"from mcp_bridge import resource, prompt\n{OTHERS}")
    bridge = build_bridge(tmp_path, {"type": "python", "path": "tools.py"}, policy)
    responses = []
    async with connect(bridge) as client:
        for reference, argument in ((PROMPT, "topic"), (TEMPLATE, "title")):
            try:
                await client.complete(reference, {"name": argument, "value": ""})
                responses.append(True)
            except MCPError as error:
                responses.append("was denied" not in str(error))
    assert responses == [is_prompt_allowed, is_template_allowed]


async def test_tools_of_the_server_itself_need_no_permission(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(f"from mcp_bridge import CallContext, tool\n{NOTES}")
    policy = [{"allow": {"tools": "read_*"}}, "read_only", {"approval": {}}]
    bridge = build_bridge(tmp_path, {"type": "python", "path": "tools.py"}, *policy, tool_search=0)
    async with connect(bridge) as client:
        search = await client.call_tool("search_tools", {"query": "note"})
        assert not search.is_error
        response = await client.call_tool("call_tool", {"name": "delete_note", "arguments": {}})
        assert response.is_error
        assert "was denied" in response.content[0].text

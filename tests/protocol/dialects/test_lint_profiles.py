"""The facts about clients, and the findings about incompatible tools."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from mcp_bridge._contracts.tool import ToolDefinition
from mcp_bridge._protocol.dialects import linting
from mcp_bridge._protocol.dialects.linting import LintFinding, lint
from mcp_bridge._protocol.dialects.profile import NameLength, Profile, ToolCount, UnsupportedKeywords
from mcp_bridge._protocol.dialects.rewriting import rewrite_tool
from mcp_bridge._protocol.dialects.table import PROFILES
from mcp_bridge._protocol.wire.tools import to_wire
from mcp_bridge._settings.sections import ClientName
from tests.kits.dialects.dialect_kit import REFERRING, SHAPES

LONG = "a" * 60
SERVER = "my-server"


def make_tool(name: str = "t", schema: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "", "inputSchema": schema or {"type": "object", "properties": {}}, **more}


OFFENDING: dict[str, list[dict[str, Any]]] = {
    "name-length": [make_tool("a" * 129)],
    "name-characters": [make_tool("dots.are.out")],
    "tool-count": [make_tool(f"t{number}") for number in range(129)],
    "keyword": [
        make_tool("refers", REFERRING),
        make_tool("union", SHAPES),
        make_tool("names", {"type": "object", "properties": {}, "propertyNames": {"pattern": "^a"}}),
        make_tool("condition", {"type": "object", "properties": {"a": {"if": True, "then": {"type": "null"}}}}),
    ],
    "enum-values": [make_tool("levels", {"type": "object", "properties": {"level": {"enum": [1, 2]}}})],
    "named-properties": [make_tool("empty", {"type": "object"})],
    "result-size": [],
    "structured-content": [make_tool("structured", outputSchema={"type": "object"})],
    "questions": [],
    "images": [],
    "string-arguments": [make_tool("list", {"type": "object", "properties": {"all": {"type": "array"}}})],
}
"""For each rule, tools that violate it in every client."""
FIXTURE = [one for tools in OFFENDING.values() for one in tools]


def list_findings(client: str, tools: list[dict[str, Any]], **more: Any) -> list[LintFinding]:
    return list(lint(tools, PROFILES[client], server_name=SERVER, **more))


@pytest.mark.parametrize("client", sorted(PROFILES))
def test_each_fact_of_each_client_is_found_in_a_list_that_breaks_all_rules(client: str) -> None:
    findings = list_findings(client, FIXTURE, result=10**7)
    facts = PROFILES[client].facts
    assert {(finding.rule, finding.level, finding.source) for finding in findings} == {
        (linting._RULES[type(fact)][0], fact.level, fact.source) for fact in facts
    }
    for finding in findings:
        assert finding.client == client
        assert finding.cure
        assert finding.text.endswith(tuple(fact.happens for fact in facts))


def test_a_plain_tool_causes_no_warnings() -> None:
    plain = make_tool("add", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
    assert [
        finding for client in PROFILES for finding in list_findings(client, [plain]) if finding.level != "note"
    ] == []


def test_the_dialect_of_a_client_fixes_the_findings_of_its_rules() -> None:
    schemas = {"refers": REFERRING, "union": SHAPES, "empty": {"type": "object"}}
    wire = [to_wire(ToolDefinition(name, "", "m", schema)) for name, schema in schemas.items()]
    for client, profile in PROFILES.items():
        listings = [rewrite_tool(finding, profile.dialect).render_listing("2025-11-25") for finding in wire]
        assert [
            finding for finding in list_findings(client, listings, dialect=profile.dialect) if finding.level != "note"
        ] == []


def test_every_type_of_fact_has_a_tool_that_violates_it() -> None:
    assert {rule for rule, _ in linting._RULES.values()} == OFFENDING.keys()
    assert {type(fact) for profile in PROFILES.values() for fact in profile.facts} == linting._RULES.keys()


def test_the_settings_know_the_clients_of_the_table() -> None:
    assert get_args(ClientName) == tuple(PROFILES)


def test_every_fact_names_its_source() -> None:
    for profile in PROFILES.values():
        for fact in profile.facts:
            assert any(mark in fact.source for mark in "#/."), (profile.name, fact)
            assert fact.happens[0].islower()
            assert not fact.happens.endswith(".")


def test_the_length_of_a_name_includes_the_prefix_of_the_client() -> None:
    [finding] = [
        candidate for candidate in list_findings("claude-code", [make_tool(LONG)]) if candidate.rule == "name-length"
    ]
    assert finding.level == "error"
    assert (finding.tool, finding.path) == (LONG, "$.name")
    assert f"76 characters as 'mcp__{SERVER}__{LONG}', and Claude Code accepts 64" in finding.text
    assert "`alias` of at most 48 characters" in finding.cure
    assert [
        candidate for candidate in list_findings("claude-desktop", [make_tool(LONG)]) if candidate.rule == "name-length"
    ] == []


@pytest.mark.parametrize(("length", "rejected"), [(64, False), (65, True)])
def test_a_name_as_long_as_the_limit_fits(length: int, rejected: bool) -> None:
    findings = list_findings("claude-desktop", [make_tool("a" * length)])
    assert any(finding.rule == "name-length" for finding in findings) is rejected


def test_a_finding_about_a_keyword_has_its_first_place_and_the_number_of_places() -> None:
    [finding] = [
        candidate
        for candidate in list_findings("gemini-cli", [make_tool("t", REFERRING)])
        if candidate.rule == "keyword"
    ]
    assert finding.path == "$.inputSchema.properties.home.$ref"
    assert finding.text.startswith("`$ref` in 2 places of its input schema: every request fails")
    assert finding.cure == "Set `dialect: gemini-cli`"


def test_a_keyword_that_remains_in_spite_of_the_dialect_has_another_cure() -> None:
    findings = list_findings("gemini-cli", [make_tool("t", REFERRING)], dialect=PROFILES["gemini-cli"].dialect)
    assert findings[0].cure.startswith("It stays although a dialect is set; the log says why.")


def test_a_union_below_the_root_is_accepted_by_a_client_that_rejects_it_at_the_root() -> None:
    nested = {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}
    assert [
        finding for finding in list_findings("claude-code", [make_tool("t", nested)]) if finding.rule == "keyword"
    ] == []


def test_a_property_named_like_a_keyword_is_no_keyword() -> None:
    schema = {"type": "object", "properties": {"$ref": {"type": "string"}, "if": {"enum": [{"$ref": "#"}]}}}
    for client in ("zed", "copilot-cli"):
        assert [
            finding for finding in list_findings(client, [make_tool("t", schema)]) if finding.rule == "keyword"
        ] == []


def test_findings_are_sorted_by_level() -> None:
    profile = Profile(
        name="p",
        title="P",
        facts=[
            ToolCount(level="warning", happens="it is slow", source="x#1", most=1),
            NameLength(level="error", happens="it fails", source="x#2", most=1),
        ],
    )
    assert [finding.level for finding in lint([make_tool("aa"), make_tool("bb")], profile)] == [
        "error",
        "error",
        "warning",
    ]


@pytest.mark.parametrize(
    "odd",
    [
        [],
        [None, 5, "text", []],
        [{"name": 5, "inputSchema": None}],
        [{"name": "a", "inputSchema": True, "outputSchema": 3}],
        [{"name": "a", "inputSchema": {"properties": [], "anyOf": {}, "enum": 3, "items": [1]}}],
    ],
)
def test_any_list_of_tools_can_be_linted(odd: Any) -> None:
    facts = [fact for profile in PROFILES.values() for fact in profile.facts]
    assert {finding.client for finding in lint(odd, Profile(name="p", title="P", facts=facts))} <= {"p"}


def test_the_dialect_of_a_client_follows_from_its_facts() -> None:
    assert PROFILES["gemini-cli"].dialect.inline_references
    assert not PROFILES["claude-code"].dialect.inline_references
    assert PROFILES["claude-code"].dialect.flatten_unions
    assert PROFILES["copilot-cli"].dialect.write_properties
    assert all(profile.dialect.parse_strings for profile in PROFILES.values())
    anywhere = UnsupportedKeywords(level="error", happens="it fails", source="x#1", words=("anyOf",))
    assert not Profile(name="p", title="P", facts=[anywhere]).dialect.flatten_unions

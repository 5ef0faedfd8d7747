"""The checklist: every line of the contracts' own is in it, and the page about it says what the code does."""

from __future__ import annotations

import re

import pytest

from mcp_bridge._integrations.amplifier.validation.checklist import BRIDGE, ITEMS, KINDS, ItemFindings, list_items
from tests.kits.amplifier.documents_reading import FOLDER
from tests.kits.paths import ROOT

PAGE = ROOT / "docs" / "modules.md"
MOUNT = "structure.entry_point mount.function"
LINES = {
    "Implements Tool protocol (name, description, execute)": "tool.name tool.description tool.execute",
    "Implements name, description, execute()": "tool.name tool.description tool.execute",
    "mount() function with entry point in pyproject.toml": f"structure.pyproject {MOUNT}",
    "mount() function with entry point": MOUNT,
    "Returns ToolResult from execute()": "tool.result",
    "Returns ToolResult (never raises)": "tool.result tool.errors",
    "Handles errors gracefully (returns success=False, doesn't crash)": "tool.errors",
    "Handles errors gracefully (is_error=True)": "tool.errors",
    "Provides JSON schema via get_schema()": "tool.schema",
    "Validates input before processing": "tool.validates",
    "Logs operations at appropriate levels": "tool.logs",
    "Registers observability events": "events",
    "Implements all 5 Provider protocol methods": "provider.protocol",
    "Preserves all content block types (especially signature in ThinkingBlock)": "",
    "Reports Usage (input/output/total tokens)": "",
    "Returns ChatResponse from complete()": "",
    "Graceful degradation on missing config (return None from mount)": "provider.degrades",
    "Validates tool call/result sequences": "",
    "Supports debug configuration flags": "provider.debug",
    "Registers cleanup function for resource management": "provider.cleanup",
    "Registers observability events via contribution channels": "events",
    "Handler implements async def __call__(event, data) -> HookResult": "hook.handler",
    "Returns valid HookResult for all code paths": "hook.result",
    "Handles exceptions gracefully (don't crash kernel)": "hook.errors",
    "Register cleanup function to unregister handlers": "hook.unregisters",
    "Use appropriate priority (10-90, lower = earlier)": "hook.priority",
    "Log handler registration for debugging": "hook.logs",
    "Support configuration for enabled events": "hook.config",
    "Register custom events via contribution channels": "events",
    "Implements execute(prompt, context, providers, tools, hooks) -> str": "orchestrator.execute orchestrator.answers",
    "Emits standard events (provider:request/response, tool:pre/post)": "orchestrator.events",
    "Handles HookResult actions appropriately": "orchestrator.hooks",
    "Manages context (add messages, check compaction)": "orchestrator.context",
    "Supports multiple providers": "orchestrator.providers",
    "Implements max iterations limit (prevent infinite loops)": "orchestrator.limit",
    "Handles provider errors gracefully": "orchestrator.provider_errors",
    "Registers custom observability events": "events",
    "Supports streaming via async generators": "",
    "Implements all 5 ContextManager protocol methods": "context.protocol",
    "get_messages_for_request() handles compaction internally": "context.compacts",
    "Compaction preserves tool_use/tool_result pairs": "context.pairs",
    "Messages returned in conversation order": "context.order",
    "Token counting for accurate compaction triggers": "context.tokens",
    "Emits context:pre_compact and context:post_compact events": "context.events",
    "Preserves system messages during compaction": "context.system",
    "Thread-safe for concurrent access": "context.concurrent",
    "Configurable thresholds": "context.config",
}
"""The items that stand for each line of the contracts' checklists."""


def written() -> list[tuple[str, str]]:
    """Every line of the documents' checklists, and how strict it is; a short list without a word is required."""
    found: list[tuple[str, str]] = []
    for document in sorted(FOLDER.glob("*.txt")):
        level = "required"
        for line in document.read_text("utf-8").splitlines():
            if re.match(r"#* ?(Required|Recommended)$", line):
                level = line.lstrip("# ").lower()
            elif match := re.match(r"\s*[-•] \[ \] (.*)", line):
                found.append((match[1].replace("`", "").strip(), level))
    return found


def test_every_line_of_the_contracts_is_an_item_or_is_named_as_not_checked() -> None:
    assert len(written()) == 59
    assert {line for line, _ in written()} == set(LINES)
    unchecked = re.findall(r"^- (?:\w+): (.*)$", PAGE.read_text("utf-8").partition("are not checked")[2], re.MULTILINE)
    assert sorted(unchecked) == sorted(line for line, items in LINES.items() if not items)


def test_an_item_is_as_strict_as_its_line() -> None:
    levels = {item.id: item.level for item in ITEMS}
    expected = {(item, level) for line, level in written() for item in LINES[line].split()}
    assert {(item, levels[item]) for item, _ in expected} == expected


def test_the_page_has_the_table_of_the_code() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| (\w+) \| ([^|]+) \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert rows == [(item.id, item.level, item.contract, item.what) for item in ITEMS]


def test_ids_are_unique_and_begin_with_the_type_that_they_are_for() -> None:
    ids = [item.id for item in ITEMS]
    assert len(set(ids)) == len(ids)
    for item in ITEMS:
        assert item.kind is None or item.id.startswith(f"{item.kind}.")
        assert item.contract == BRIDGE or item.kind is None or item.contract == f"{item.kind.capitalize()} contract"


@pytest.mark.parametrize("kind", [*KINDS, None])
def test_a_list_is_of_one_type(kind: str | None) -> None:
    assert {item.kind for item in list_items(kind)} == {None, kind}


def test_what_has_failed_once_stays_so_and_what_nobody_tells_was_not_reached() -> None:
    findings = ItemFindings()
    for state in ("skipped", "passed", "failed", "passed", "failed"):
        findings.add("tool.errors", state, f"found: {state}", "do something")
    findings.add("tool.schema", "failed", "there is none")
    findings.add("tool.name", "passed")
    told = {finding.item.id: finding for finding in findings.build_findings("tool")}
    assert (told["tool.errors"].state, told["tool.errors"].found) == ("failed", "found: failed")
    assert (told["tool.schema"].state, told["tool.name"].state) == ("warned", "passed")
    assert (told["tool.cancel"].state, told["tool.cancel"].found) == ("skipped", "not reached")
    assert findings.has_failed("tool.errors")
    assert not findings.has_failed("tool.cancel")

"""The documented names for authors of modules can be imported, and cost nothing before their use."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys

import pytest

import mcp_bridge.amplifier
from tests.kits.amplifier.documents_reading import FOLDER

PUBLIC = [
    "AmplifierModuleLoader",
    "ApprovalProvider",
    "ApprovalRequest",
    "ApprovalResponse",
    "ApprovalSystem",
    "ApprovalTimeoutError",
    "CancellationState",
    "CancellationToken",
    "ChatRequest",
    "ChatResponse",
    "ContextInjection",
    "ContextManager",
    "FileSource",
    "GitSource",
    "HookHandler",
    "HookRegistry",
    "HookResult",
    "ImageBlock",
    "Message",
    "ModelInfo",
    "ModuleCoordinator",
    "ModuleInfo",
    "ModuleLoadError",
    "ModuleLoader",
    "ModuleNotFoundError",
    "ModuleSource",
    "ModuleSourceResolver",
    "MountCollision",
    "Orchestrator",
    "PackageSource",
    "Provider",
    "ProviderInfo",
    "ReasoningBlock",
    "RedactedThinkingBlock",
    "TextBlock",
    "ThinkingBlock",
    "Tool",
    "ToolCall",
    "ToolCallBlock",
    "ToolResult",
    "ToolResultBlock",
    "ToolSpec",
    "Usage",
]
"""Growing or shrinking this list is a decision, with a line in the changelog."""

SUBMODULES = {
    "interfaces": ["Tool", "Provider", "HookHandler", "Orchestrator", "ContextManager", "ApprovalRequest"],
    "models": ["ToolResult", "HookResult", "ProviderInfo", "ModelInfo", "ContextInjection"],
    "message_models": ["ToolCall", "ChatRequest", "ChatResponse", "TextBlock", "Usage"],
    "hooks": ["HookRegistry", "HookResult"],
    "events": ["TOOL_PRE", "TOOL_POST", "TOOL_ERROR", "SESSION_START", "SESSION_END", "PROMPT_SUBMIT", "ALL_EVENTS"],
    "module_sources": ["ModuleSource", "ModuleSourceResolver", "ModuleNotFoundError", "ModuleLoadError"],
    "loader": ["ModuleLoader"],
    "coordinator": ["ModuleCoordinator"],
    "cancellation": ["CancellationToken"],
    "testing": [
        "TestCoordinator",
        "create_test_coordinator",
        "EventRecorder",
        "MockTool",
        "MockContextManager",
        "ScriptedOrchestrator",
    ],
}


def test_these_names_are_public_and_no_others() -> None:
    assert mcp_bridge.amplifier.__all__ == sorted(mcp_bridge.amplifier.__all__)
    assert sorted(mcp_bridge.amplifier.__all__) == PUBLIC
    assert dir(mcp_bridge.amplifier) == mcp_bridge.amplifier.__all__


def test_every_public_name_can_be_imported_and_has_a_docstring() -> None:
    assert [name for name in PUBLIC if not getattr(mcp_bridge.amplifier, name).__doc__] == []


def test_any_other_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        mcp_bridge.amplifier.Nothing


def test_names_are_where_amplifier_has_them() -> None:
    modules = {module: importlib.import_module(f"mcp_bridge.amplifier.{module}") for module in SUBMODULES}
    missing = [
        (module, name) for module, names in SUBMODULES.items() for name in names if not hasattr(modules[module], name)
    ]
    assert missing == []


def test_all_imports_of_the_documents_are_listed_here() -> None:
    text = "".join(path.read_text("utf-8") for path in sorted(FOLDER.glob("*.txt")))
    imports = re.findall(r"^from amplifier_core\.(\w+) import (\([^)]*\)|[^\n]*)", text, re.MULTILINE)
    assert len(imports) > 8
    for module, names in imports:
        assert set(re.findall(r"\w+", names)) <= set(SUBMODULES[module])


def test_the_events_of_the_documents_have_names() -> None:
    from mcp_bridge._integrations.amplifier import events

    text = (FOLDER / "module_contracts.txt").read_text("utf-8")
    names = set(re.findall(r"(?<![\w-])(?:session|prompt|tool|provider|context):[a-z_]+\b", text))
    assert len(names) > 9
    assert names <= set(events.ALL_EVENTS)
    assert len(set(events.ALL_EVENTS)) == len(events.ALL_EVENTS)


def test_nothing_is_loaded_before_it_is_used_and_amplifier_core_never() -> None:
    code = (
        "import sys, mcp_bridge.amplifier as a\n"
        "assert 'pydantic' not in sys.modules\n"
        "[getattr(a, name) for name in a.__all__]\n"
        "import mcp_bridge.amplifier.testing\n"
        "print([name for name in sys.modules if name.startswith('amplifier_core') or name == 'unittest.mock'])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == ("[]", "")

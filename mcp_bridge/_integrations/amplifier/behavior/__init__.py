"""The contract suites: tests for modules of each type.

Module authors subclass a suite in a test file, and `mcp-bridge module validate` runs the rules of a suite one by one.
`find_violations` runs a suite without pytest, and returns the rules that a module breaks.
"""

from __future__ import annotations

from mcp_bridge._integrations.amplifier.behavior.contexts import ContextBehaviorTests
from mcp_bridge._integrations.amplifier.behavior.hooks import HookBehaviorTests
from mcp_bridge._integrations.amplifier.behavior.module_tests import ModuleBehaviorTests, find_violations
from mcp_bridge._integrations.amplifier.behavior.orchestrators import OrchestratorBehaviorTests
from mcp_bridge._integrations.amplifier.behavior.providers import ProviderBehaviorTests
from mcp_bridge._integrations.amplifier.behavior.tools import ToolBehaviorTests

__all__ = [
    "SUITES",
    "ContextBehaviorTests",
    "HookBehaviorTests",
    "ModuleBehaviorTests",
    "OrchestratorBehaviorTests",
    "ProviderBehaviorTests",
    "ToolBehaviorTests",
    "find_violations",
]

SUITES: dict[str, type[ModuleBehaviorTests]] = {
    "tool": ToolBehaviorTests,
    "provider": ProviderBehaviorTests,
    "orchestrator": OrchestratorBehaviorTests,
    "context": ContextBehaviorTests,
    "hook": HookBehaviorTests,
}
"""The suites by the types of modules."""

"""Contract suites: tests that every provider, orchestrator and context must pass, to subclass in a test file.

`find_violations` runs a suite without pytest's collection, and returns what it found.
"""

from __future__ import annotations

from mcp_bridge._integrations.amplifier.behavior.contexts import ContextBehaviorTests
from mcp_bridge._integrations.amplifier.behavior.module_tests import ModuleBehaviorTests, find_violations
from mcp_bridge._integrations.amplifier.behavior.orchestrators import OrchestratorBehaviorTests
from mcp_bridge._integrations.amplifier.behavior.providers import ProviderBehaviorTests

__all__ = [
    "ContextBehaviorTests",
    "ModuleBehaviorTests",
    "OrchestratorBehaviorTests",
    "ProviderBehaviorTests",
    "find_violations",
]

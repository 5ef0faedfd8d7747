"""Test doubles and contract suites for tests of Amplifier modules (the sections "Testing" of the contracts).

The suites are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_bridge._runtime.lazy_import import make_lazy_getattr

if TYPE_CHECKING:
    from mcp_bridge._integrations.amplifier.behavior import (
        ContextBehaviorTests,
        HookBehaviorTests,
        OrchestratorBehaviorTests,
        ProviderBehaviorTests,
        ToolBehaviorTests,
        find_violations,
    )
    from mcp_bridge._integrations.amplifier.doubles import (
        EventRecorder,
        MockApprovals,
        MockContextManager,
        MockCoordinator,
        MockDisplay,
        MockProvider,
        MockTool,
        RecordedMethod,
        ScriptedOrchestrator,
        TestCoordinator,
        create_test_coordinator,
        wait_for,
    )

__all__ = [
    "ContextBehaviorTests",
    "EventRecorder",
    "HookBehaviorTests",
    "MockApprovals",
    "MockContextManager",
    "MockCoordinator",
    "MockDisplay",
    "MockProvider",
    "MockTool",
    "OrchestratorBehaviorTests",
    "ProviderBehaviorTests",
    "RecordedMethod",
    "ScriptedOrchestrator",
    "TestCoordinator",
    "ToolBehaviorTests",
    "create_test_coordinator",
    "find_violations",
    "wait_for",
]

_SUITES = tuple(name for name in __all__ if name.endswith("BehaviorTests") or name == "find_violations")
__getattr__ = make_lazy_getattr(
    __name__,
    {
        "mcp_bridge._integrations.amplifier.behavior": _SUITES,
        "mcp_bridge._integrations.amplifier.doubles": tuple(name for name in __all__ if name not in _SUITES),
    },
)

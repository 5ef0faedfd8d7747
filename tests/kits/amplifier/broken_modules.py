"""Runs single rules of the contract suites, for tests with modules that break them."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge._integrations.amplifier.behavior import ModuleBehaviorTests


def list_rules(suite: type[ModuleBehaviorTests]) -> set[str]:
    return {name.removeprefix("test_") for name in dir(suite) if name.startswith("test_")}


async def run_rule(suite: type[ModuleBehaviorTests], rule: str, module: Any, **attributes: Any) -> str:
    """Return what the rule reports about a module. Only broken rules are reported: other exceptions propagate."""
    tests = suite()
    vars(tests).update(attributes, module=module)
    try:
        await getattr(tests, f"test_{rule}")()
    except AssertionError as error:
        return str(error)
    except TimeoutError:
        return "timeout"
    except pytest.skip.Exception as skipped:
        raise AssertionError(f"the rule was skipped: {skipped}") from skipped
    return ""

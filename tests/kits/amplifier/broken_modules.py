"""Runs single rules of the contract suites, for tests of violations."""

from __future__ import annotations

from typing import Any
from unittest import SkipTest

from mcp_bridge._integrations.amplifier.behavior import ModuleBehaviorTests
from mcp_bridge._integrations.amplifier.behavior.module_tests import list_rules


def list_own_rules(suite: type[ModuleBehaviorTests]) -> set[str]:
    """Return the rules of one suite only."""
    return set(list_rules(suite)) - set(list_rules(ModuleBehaviorTests))


async def run_rule(suite: type[ModuleBehaviorTests], rule: str, module: Any, **attributes: Any) -> str:
    """Return the report of a rule about a module. Only broken rules are reported: other exceptions propagate."""
    tests = suite()
    vars(tests).update(attributes, module=module)
    try:
        await getattr(tests, f"test_{rule}")()
    except AssertionError as error:
        return str(error)
    except TimeoutError:
        return "timeout"
    except SkipTest as skipped:
        raise AssertionError(f"the rule was skipped: {skipped}") from skipped
    return ""

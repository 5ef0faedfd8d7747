"""The key `policy` in the settings: its form, its errors, its order, and policies of other packages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.policy import Policy
from mcp_bridge._engine.plugins import POLICIES, load_policy_type
from mcp_bridge._settings import build_json_schema
from tests.kits.policies.policies_kit import build_bridge, call, open_tools

TOOL = '@tool\ndef one() -> str:\n    """One."""\n    return "one"'
REQUIRED = {"audit": {"path": "trail.sqlite3"}, "rate_limit": {"limit": "1/day"}}
"""The options without which a policy cannot be built."""
OWN = """
from mcp_bridge.middleware import Stage
from mcp_bridge.errors import Denied
from mcp_bridge.policies import ToolPolicy


class Objection(ToolPolicy):
    word: str = "no"
    _text: str = ""

    def use_services(self, services):
        self._text = f"{self.word} from {services.name}"

    def bind(self, entry):
        return self.object_to

    async def object_to(self, call, ctx, call_next):
        raise Denied(self._text)


class Closed:
    stage = Stage.ADMIT

    async def __call__(self, call, ctx, call_next):
        raise Denied("closed")


class Sized(Closed):
    def __init__(self, size):
        self.size = size


closed = Closed()
"""


def build(folder: Path, *policy: Any) -> Any:
    (folder / "tools.py").write_text(f"from mcp_bridge import tool\n{TOOL}")
    return build_bridge(folder, {"type": "python", "path": "tools.py"}, *policy)


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ("readonly", "policy[0]: unknown policy 'readonly'. Did you mean 'read_only'?"),
        ({"logging": {}}, "policy[0].logging: unknown policy 'logging'. Known policies: audit, redact"),
        ({"allow": {}, "deny": {}}, "policy[0]: expected one policy, found a mapping with the keys allow, deny"),
        (3, "policy[0]: expected one policy, found a whole number"),
        ({"deny": ["a"]}, "policy[0].deny: expected options, found a list"),
        ({"deny": {"tool": "a"}}, "policy[0].deny.tool: unknown key 'tool', did you mean 'tools'?"),
        ({"deny": {"annotations": {"readOnly": True}}}, "policy[0].deny.annotations"),
        ({"missing_module:Name": None}, "plugin 'missing_module:Name'"),
        ({"json:JSONDecoder": None}, "'json:JSONDecoder' is not a policy"),
        ({"own_policies:Closed": {"a": 1}}, "'own_policies:Closed' has no options"),
        ("own_policies:Sized", "'own_policies:Sized' cannot be made"),
    ],
)
def test_a_mistake_has_its_place_and_a_hint(
    tmp_path: Path, policy: Any, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_own_policies(tmp_path, monkeypatch)
    with pytest.raises(ConfigError) as caught:
        build(tmp_path, policy)
    assert problem in str(caught.value)


def write_own_policies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "own_policies.py").write_text(OWN)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "own_policies", raising=False)


async def test_a_policy_of_another_package_has_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_own_policies(tmp_path, monkeypatch)
    async with open_tools(tmp_path, TOOL, {"own_policies:Objection": {"word": "never"}}, name="demo") as bridge:
        assert (await call(bridge, "one")).error_text == "never from demo"


@pytest.mark.parametrize(("principal", "text"), [("a", "no from demo"), ("b", "")])
async def test_a_policy_of_your_own_runs_only_for_its_principals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, principal: str, text: str
) -> None:
    write_own_policies(tmp_path, monkeypatch)
    async with open_tools(tmp_path, TOOL, {"own_policies:Objection": {"principals": "a"}}, name="demo") as bridge:
        assert (await call(bridge, "one", principal)).error_text == text


@pytest.mark.parametrize("name", ["Closed", "closed"])
async def test_middleware_is_a_policy_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    write_own_policies(tmp_path, monkeypatch)
    async with open_tools(tmp_path, TOOL, f"own_policies:{name}") as bridge:
        assert (await call(bridge, "one")).error_text == "closed"


def test_policies_run_in_the_order_of_the_table_for_any_order_in_the_settings(tmp_path: Path) -> None:
    bridge = build(tmp_path, *({name: REQUIRED.get(name)} for name in reversed(POLICIES)))
    names = [built_policy.name for built_policy in bridge.registry.pipeline.policies]
    assert names == [*POLICIES]
    stages = [built_policy.stage for built_policy in bridge.registry.pipeline.policies]
    assert stages == sorted(stages)


@pytest.mark.parametrize("name", POLICIES)
def test_each_policy_of_the_table_is_a_policy(tmp_path: Path, name: str) -> None:
    (policy,) = build(tmp_path, {name: REQUIRED.get(name)}).registry.pipeline.policies
    assert isinstance(policy, Policy)
    assert policy.name == name


@pytest.mark.parametrize(
    ("policy", "is_valid"),
    [
        ("read_only", True),
        ({"deny": {"tools": "a"}}, True),
        ({"cache": None}, True),
        ({"my.package:Options": {"a": 1}}, True),
        ("my.package:Options", True),
        ("readonly", False),
        ({"deny": {"tool": "a"}}, False),
        ({"deny": {}, "allow": {}}, False),
        ({"rate_limit": {}}, False),
    ],
)
def test_the_schema_for_editors_knows_the_policies(policy: Any, is_valid: bool) -> None:
    schema = build_json_schema({}, {name: load_policy_type(name) for name in POLICIES})
    assert jsonschema.Draft202012Validator(schema).is_valid({"policy": [policy]}) == is_valid

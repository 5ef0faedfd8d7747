"""The modules of this package, and the mocks of the testing kit, under the contract suites on both hosts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_bridge._integrations.amplifier.behavior import (
    ContextBehaviorTests,
    OrchestratorBehaviorTests,
    ProviderBehaviorTests,
    find_violations,
)
from mcp_bridge._integrations.amplifier.contexts import persistent, simple
from mcp_bridge._integrations.amplifier.loops import basic, streaming
from mcp_bridge._integrations.amplifier.providers import sampling_provider, scripted_provider
from mcp_bridge.amplifier.testing import MockContextManager, MockProvider
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS
from tests.kits.amplifier.served_providers import SamplingProviderTests
from tests.kits.loops import BOTH_LOOPS

CALL: Any = {"responses": [{"text": "I look.", "calls": [{"name": "measure", "arguments": {"unit": "cm"}}]}]}


@BOTH_HOSTS
@BOTH_LOOPS
@pytest.mark.parametrize("module", [simple, persistent])
async def test_contexts_follow_their_contract(host: Any, module: Any, tmp_path: Path) -> None:
    class Suite(ContextBehaviorTests):
        number = 0

        @property
        def config(self) -> Any:  # type: ignore[override]
            Suite.number += 1
            return {"path": str(tmp_path / f"{Suite.number}.jsonl")} if module is persistent else {}

    assert await find_violations(Suite, module, host=host) == {}


@BOTH_HOSTS
@BOTH_LOOPS
@pytest.mark.parametrize("module", [basic, streaming])
async def test_orchestrators_follow_their_contract(host: Any, module: Any) -> None:
    assert await find_violations(OrchestratorBehaviorTests, module, host=host) == {}


@BOTH_HOSTS
@pytest.mark.parametrize(
    ("suite", "module"), [(ProviderBehaviorTests, scripted_provider), (SamplingProviderTests, sampling_provider)]
)
async def test_providers_follow_their_contract(host: Any, suite: Any, module: Any, monkeypatch: Any) -> None:
    names = ("tool_call", "error", "silence") if suite is SamplingProviderTests else ()
    situations = {"tool_call": CALL} if suite is ProviderBehaviorTests else {name: {} for name in names}
    assert await find_violations(suite, module, host=host, situations=situations) == {}


async def mount_mocks(coordinator: Any, config: dict[str, Any]) -> None:
    await coordinator.mount("context", MockContextManager())
    await coordinator.mount("providers", MockProvider())


async def test_the_mock_of_a_provider_follows_the_contract() -> None:
    assert await find_violations(ProviderBehaviorTests, SimpleNamespace(mount=mount_mocks)) == {}


async def test_the_mock_of_a_context_follows_the_contract_except_for_compaction() -> None:
    violations = await find_violations(ContextBehaviorTests, SimpleNamespace(mount=mount_mocks))
    assert sorted(violations) == [
        "compaction_emits_its_events",
        "few_long_messages_are_limited_as_well",
        "max_tokens_is_the_budget_if_the_provider_does_not_describe_itself",
        "max_tokens_is_the_budget_without_a_provider",
        "the_default_budget_is_100_000_tokens",
        "the_window_of_the_provider_limits_a_request",
        "token_budget_limits_a_request",
    ]

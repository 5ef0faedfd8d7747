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
from mcp_bridge._integrations.amplifier.providers import (
    anthropic_provider,
    sampling_provider,
    scripted_provider,
)
from mcp_bridge.amplifier.testing import MockContextManager, MockProvider
from tests.integrations.amplifier.providers import test_anthropic_provider as anthropic_replies
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS
from tests.kits.amplifier.model_server import Reply
from tests.kits.amplifier.served_providers import SamplingProviderTests, ServedProviderTests
from tests.kits.loops import BOTH_LOOPS

CALL: Any = {"responses": [{"text": "I look.", "calls": [{"name": "measure", "arguments": {"unit": "cm"}}]}]}


class AnthropicProviderTests(ServedProviderTests):
    replies = {
        "text": anthropic_replies.stream(anthropic_replies.text("It is ", "large.")),
        "tool_call": anthropic_replies.stream(
            anthropic_replies.text("I look."), ({**anthropic_replies.TOOL, "name": "measure"}, []), stop="tool_use"
        ),
        "thinking": anthropic_replies.stream(
            (anthropic_replies.THINKING, [{"type": "signature_delta", "signature": "c2ln"}]),
            anthropic_replies.text("It is large."),
        ),
        "error": Reply({"type": "error", "error": {"type": "api_error", "message": "it broke"}}, 500),
        "models": Reply(
            {
                "data": [{"type": "model", "id": "one", "display_name": "One", "created_at": "2026-01-01T00:00:00Z"}],
                "has_more": False,
                "first_id": "one",
                "last_id": "one",
            }
        ),
    }


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
    ("suite", "module"),
    [
        (ProviderBehaviorTests, scripted_provider),
        (AnthropicProviderTests, anthropic_provider),
        (SamplingProviderTests, sampling_provider),
    ],
)
async def test_providers_follow_their_contract(host: Any, suite: Any, module: Any, monkeypatch: Any) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    names = ("tool_call", "error", "silence") if suite is SamplingProviderTests else ()
    situations = {"tool_call": CALL} if suite is ProviderBehaviorTests else {name: {} for name in names}
    assert await find_violations(suite, module, host=host, situations=situations) == {}


async def mount_mocks(coordinator: Any, config: dict[str, Any]) -> None:
    await coordinator.mount("context", MockContextManager())
    await coordinator.mount("providers", MockProvider())


async def test_the_mock_of_a_provider_follows_the_contract() -> None:
    assert await find_violations(ProviderBehaviorTests, SimpleNamespace(mount=mount_mocks)) == {}


async def test_the_mock_of_a_context_follows_the_contract_except_for_compaction() -> None:
    found = await find_violations(ContextBehaviorTests, SimpleNamespace(mount=mount_mocks))
    assert sorted(found) == [
        "compaction_emits_its_events",
        "few_long_messages_are_limited_as_well",
        "max_tokens_is_the_budget_if_the_provider_does_not_describe_itself",
        "max_tokens_is_the_budget_without_a_provider",
        "the_default_budget_is_100_000_tokens",
        "the_window_of_the_provider_limits_a_request",
        "token_budget_limits_a_request",
    ]

"""The decisions of hooks about the task of an agent hold for every orchestrator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integrations.amplifier.agent.test_public_shapes import PACKAGES, run, serve
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS, ServedPlan
from tests.kits.amplifier.public_shapes import write_shape
from tests.kits.hooks.hooks_kit import get_code, get_texts

MASKS = {"prompt:submit": {"action": "modify", "data": {"prompt": "Write to [REDACTED]."}}}
TASK = "Write to ada@example.com."
DEAF = """
from PACKAGE.message_models import ChatRequest, Message

__amplifier_module_type__ = "orchestrator"

class Deaf:
    async def execute(self, prompt, context, providers, tools, hooks, **kwargs):
        request = ChatRequest(messages=[Message(role="user", content=prompt)])
        response = await next(iter(providers.values())).complete(request)
        return response.content[0].text

async def mount(coordinator, config=None):
    await coordinator.mount("orchestrator", Deaf())
"""
"""An orchestrator that emits no events."""
DECIDES = """
async def mount(coordinator, config):
    async def decide(event, data):
        return HookResult(**config["prompt:submit"])
    coordinator.hooks.register("prompt:submit", decide)
"""


def serve_deaf(folder: Path, host: str, decide: dict[str, Any]) -> ServedPlan:
    """Serve a plan with an orchestrator without events."""
    names = {name: f"{name}_{folder.name}" for name in ("deaf", "echo", "decides")}
    modules = {
        names["deaf"]: DEAF.replace("PACKAGE", PACKAGES[host]),
        names["echo"]: write_shape("echo", PACKAGES[host]),
        names["decides"]: DECIDES,
    }
    return ServedPlan(
        folder,
        modules,
        session={"orchestrator": names["deaf"], "context": "context-simple"},
        providers=[{"module": names["echo"]}],
        hooks=[{"module": names["decides"], "config": decide}],
    )


@BOTH_HOSTS
@pytest.mark.parametrize("loop", ["basic", "streaming", "loop-basic", "loop-streaming"])
async def test_the_model_reads_the_task_as_hooks_leave_it(loop: str, host: str, tmp_path: Path) -> None:
    result, history = await run(serve(tmp_path, host, loop=loop, decide=MASKS), TASK)
    assert get_texts(result)[0] == "I saw: Write to [REDACTED]."
    assert "ada@example.com" not in repr(history)


@BOTH_HOSTS
async def test_an_orchestrator_without_events_gets_the_task_as_hooks_leave_it(host: str, tmp_path: Path) -> None:
    async with serve_deaf(tmp_path, host, MASKS).connect() as client:
        result = await client.call_tool("run_agent", {"task": TASK})
    assert get_texts(result)[0] == "I saw: Write to [REDACTED]."


@BOTH_HOSTS
async def test_an_orchestrator_without_events_does_not_get_a_denied_task(host: str, tmp_path: Path) -> None:
    decide = {"prompt:submit": {"action": "deny", "reason": "not today"}}
    async with serve_deaf(tmp_path, host, decide).connect() as client:
        result = await client.call_tool("run_agent", {"task": TASK})
    assert get_code(result) == "agent_stopped"
    assert "not today" in get_texts(result)[0]
    assert result.structured_content is None or result.structured_content["usage"]["total_tokens"] == 0


async def test_hooks_are_asked_once_about_a_task(tmp_path: Path) -> None:
    decide = {"prompt:submit": {"action": "inject_context", "context_injection": "it rains", "ephemeral": True}}
    result, history = await run(serve(tmp_path, "native", loop="loop-basic", decide=decide), "Go.", "Go on.")
    # One text is from this request, and one from the first response.
    assert get_texts(result)[0].count("it rains") == 2
    assert [message["content"] for message in history if message["role"] == "user"] == ["Go.", "Go on."]

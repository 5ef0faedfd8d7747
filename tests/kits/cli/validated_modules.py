"""A module of each type that is as its contract says, to be spoilt in one place by the tests of `module validate`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PYPROJECT = """
[project]
name = "amplifier-module-sample"
version = "1.0"

[project.entry-points."amplifier.modules"]
sample = "sample:mount"
"""
HEAD = """
import asyncio
import logging
import os
import subprocess
import sys
import threading
import time

from mcp_bridge.amplifier import HookResult, ToolResult

__amplifier_module_type__ = "KIND"
logger = logging.getLogger(__name__)
"""
TOOL = """
class Sample:
    name = "sample"
    description = "A sample."
    input_schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

    async def execute(self, input):
        logger.debug("a call")
        text = input.get("text")
        if not isinstance(text, str):
            return ToolResult(success=False, error={"message": "text: a text"})
        await asyncio.sleep(0)
        return ToolResult(output=text)


async def mount(coordinator, config):
    coordinator.register_contributor("observability.events", "sample", lambda: ["sample:called"])
    await coordinator.mount("tools", Sample(), name="sample")
    return None


async def on_session_ready(coordinator):
    pass
"""
HOOK = """
async def decide(event, data):
    if "secret" in str(data.get("tool_input")):
        return HookResult(action="deny", reason="no")
    return HookResult(action="continue")


async def mount(coordinator, config):
    coordinator.register_contributor("observability.events", "sample", lambda: ["sample:denied"])
    heard = config.get("events", ["tool:pre", "tool:post", "session:start"])
    logger.debug("hears %s", heard)
    registered = [coordinator.hooks.register(event, decide, priority=50, name="sample") for event in heard]

    def cleanup():
        for unregister in registered:
            unregister()

    return cleanup
"""
PROVIDER = """
from mcp_bridge.amplifier import ChatResponse, ModelInfo, ProviderInfo, TextBlock, Usage


class Sample:
    name = "sample"

    def __init__(self, key):
        self._key = key

    def get_info(self):
        return ProviderInfo(id="sample", display_name="Sample")

    async def list_models(self):
        return [ModelInfo(id="one", display_name="One", context_window=1000, max_output_tokens=100)]

    async def complete(self, request, **kwargs):
        raise AssertionError("no model is called by a check")

    def parse_tool_calls(self, response):
        return list(response.tool_calls or [])


async def mount(coordinator, config):
    coordinator.register_contributor("observability.events", "sample", lambda: ["sample:retry"])
    key, debug = config.get("key"), config.get("debug", False)
    if key is None:
        logger.warning("there is no key")
        return None
    await coordinator.mount("providers", Sample(key), name="sample")

    async def cleanup():
        pass

    return cleanup
"""
ORCHESTRATOR = """
from mcp_bridge.amplifier import ChatRequest


class Sample:
    async def execute(self, prompt, context, providers, tools, hooks, **kwargs):
        provider = next(iter(providers.values()))

        async def decide(event, data):
            decided = await hooks.emit(event, data)
            if decided.action == "ask_user":
                return await kwargs["coordinator"].process_hook_result(decided, event)
            if decided.action == "inject_context":
                await context.add_message({"role": "system", "content": decided.context_injection})
            return decided

        decided = await decide("prompt:submit", {"prompt": prompt})
        if decided.action == "deny":
            return f"denied: {decided.reason}"
        prompt = decided.data["prompt"]
        await context.add_message({"role": "user", "content": prompt})
        for _ in range(10):
            messages = await context.get_messages_for_request()
            decided = await decide("provider:request", {"messages": messages})
            if decided.action == "deny":
                return f"denied: {decided.reason}"
            try:
                response = await provider.complete(ChatRequest(messages=[]))
            except Exception as error:
                return f"The provider failed: {error}"
            decided = await decide("provider:response", {"response": response, "usage": response.usage})
            if decided.action == "deny":
                return f"denied: {decided.reason}"
            calls = provider.parse_tool_calls(response)
            if not calls:
                answer = "".join(block.text for block in response.content)
                await context.add_message({"role": "assistant", "content": answer})
                return answer
            for call in calls:
                output = await self._call(call, tools, decide)
                await context.add_message({"role": "tool", "tool_call_id": call.id, "content": output})
        return "That takes too long."

    async def _call(self, call, tools, decide):
        data = {"tool_name": call.name, "tool_input": call.arguments}
        decided = await decide("tool:pre", data)
        if decided.action == "deny":
            return f"denied: {decided.reason}"
        if decided.action == "modify":
            data = decided.data
        result = await tools[call.name].execute(data["tool_input"])
        decided = await decide("tool:post", {**data, "result": result.output})
        return f"denied: {decided.reason}" if decided.action == "deny" else decided.data["result"]


async def mount(coordinator, config):
    coordinator.register_contributor("observability.events", "sample", lambda: ["sample:turn"])
    loop = Sample()
    await coordinator.mount("session", loop, name="orchestrator")
    return loop
"""
CONTEXT = """
class Sample:
    def __init__(self, hooks, threshold):
        self._hooks = hooks
        self._threshold = threshold
        self._messages = []

    async def add_message(self, message):
        self._messages.append(message)

    async def get_messages(self):
        return list(self._messages)

    async def set_messages(self, messages):
        self._messages = list(messages)

    async def clear(self):
        self._messages = []

    async def get_messages_for_request(self, token_budget=None, provider=None):
        budget = (token_budget or 10000) * self._threshold
        if sum(map(self._tokens, self._messages)) <= budget:
            return list(self._messages)
        await self._hooks.emit("context:pre_compact", {"message_count": len(self._messages)})
        view = self._view(budget)
        await self._hooks.emit("context:post_compact", {"message_count": len(view)})
        return view

    def _view(self, budget):
        kept, used, start = [], 0, len(self._messages)
        while start and used < budget / 2:
            start -= 1
            used += self._tokens(self._messages[start])
        while start and self._messages[start]["role"] == "tool":
            start -= 1
        system = [message for message in self._messages[:start] if message["role"] == "system"]
        return system + self._messages[start:]

    def _tokens(self, message):
        return len(str(message)) // 4


async def mount(coordinator, config):
    coordinator.register_contributor("observability.events", "sample", lambda: ["context:pre_compact"])
    context = Sample(coordinator.hooks, config.get("threshold", 0.8))
    await coordinator.mount("session", context, name="context")
    return context
"""
BODIES = {"tool": TOOL, "hook": HOOK, "provider": PROVIDER, "orchestrator": ORCHESTRATOR, "context": CONTEXT}
CONFIGS = {"provider": '{"key": "a key"}'}
"""What a module needs to be mounted."""


def source(kind: str) -> str:
    """The code of the good module of a type."""
    return HEAD.replace("KIND", kind) + BODIES[kind]


def project(folder: Path, code: str, files: Mapping[str, str] | None = None) -> Path:
    """A folder with a package of this code, its pyproject.toml, and other files; `""` leaves one out."""
    wanted = {"sample/__init__.py": code, "pyproject.toml": PYPROJECT, **(files or {})}
    for name, text in wanted.items():
        if text:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    return folder

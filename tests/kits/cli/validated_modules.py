"""A valid module of each type, for the tests of `module validate`. Each test breaks one place."""

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
    events = config.get("events", ["tool:pre", "tool:post", "session:start"])
    logger.debug("handles %s", events)
    registered = [coordinator.hooks.register(event, decide, priority=50, name="sample") for event in events]

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
        return ProviderInfo(
            id="sample", display_name="Sample", defaults={"context_window": 8000, "max_output_tokens": 1000}
        )

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
from mcp_bridge._integrations.amplifier.loops.streaming import mount
"""
CONTEXT = """
from mcp_bridge._integrations.amplifier.contexts.simple import mount
"""
BODIES = {"tool": TOOL, "hook": HOOK, "provider": PROVIDER, "orchestrator": ORCHESTRATOR, "context": CONTEXT}
CONFIGS = {"provider": '{"key": "a key"}'}
"""The configuration without which a module is not mounted, by type."""


def write_module(module_type: str) -> str:
    """Return the code of the valid module of a type."""
    return HEAD.replace("KIND", module_type) + BODIES[module_type]


def write_project(folder: Path, code: str, files: Mapping[str, str] | None = None) -> Path:
    """Create a project with a package of this code, its pyproject.toml and other files; `""` omits one."""
    contents = {"sample/__init__.py": code, "pyproject.toml": PYPROJECT, **(files or {})}
    for name, text in contents.items():
        if text:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    return folder

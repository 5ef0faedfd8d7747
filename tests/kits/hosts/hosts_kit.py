"""For tests of hosts: packages with modules as the contracts show them, written against amplifier_core."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

from mcp_bridge._integrations.amplifier.hosts import Host, create_session
from mcp_bridge._integrations.amplifier.mount_plan import MountPlan, read_plan
from mcp_bridge._integrations.amplifier.session import ModuleSession
from mcp_bridge._integrations.amplifier.source.resolver import Resolver

TOOL = """
from amplifier_core import ModuleCoordinator, ToolResult

__amplifier_module_type__ = "tool"


class Greet:
    def __init__(self, coordinator, config):
        self.coordinator, self.greeting = coordinator, config.get("greeting", "Hello")

    @property
    def name(self):
        return "greet"

    @property
    def description(self):
        return "Greets."

    @property
    def input_schema(self):
        return {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}

    async def execute(self, input):
        if input["who"] == "unknown-user":
            return ToolResult(success=False, output={"code": 3}, error={"message": "unknown user"})
        return ToolResult(success=True, output=f"{self.greeting}, {input['who']}!")


async def mount(coordinator: ModuleCoordinator, config=None):
    await coordinator.mount("tools", Greet(coordinator, config or {}))
"""
HOOK = """
from amplifier_core import HookResult
from amplifier_core.events import TOOL_PRE

__amplifier_module_type__ = "hook"


class Manners:
    def __init__(self, coordinator):
        self.coordinator = coordinator

    async def __call__(self, event, data):
        who = data["tool_input"].get("who")
        if who == "enemy":
            return HookResult(action="deny", reason="not them")
        if who == "me":
            return HookResult(action="modify", data={**data, "tool_input": {"who": "you"}})
        return HookResult(action="continue")


async def mount(coordinator, config=None):
    unregister = coordinator.hooks.register(TOOL_PRE, Manners(coordinator), priority=5, name="manners")
    return unregister
"""
CONTEXT = """
from amplifier_core import ModuleCoordinator

__amplifier_module_type__ = "context"


class Memory:
    def __init__(self):
        self.messages = []

    async def add_message(self, message):
        self.messages.append(message)

    async def get_messages_for_request(self, token_budget=None, provider=None):
        return list(self.messages)

    async def get_messages(self):
        return list(self.messages)

    async def set_messages(self, messages):
        self.messages = list(messages)

    async def clear(self):
        self.messages = []


async def mount(coordinator: ModuleCoordinator, config=None):
    await coordinator.mount("context", Memory())
"""


def write_package(folder: Path, module_id: str, text: str) -> Path:
    """Write a module as a package in a folder, as in Amplifier's repositories."""
    root = folder / f"amplifier-module-{module_id}"
    name = f"amplifier_module_{module_id.replace('-', '_')}"
    (root / name).mkdir(parents=True)
    (root / name / "__init__.py").write_text(dedent(text), "utf-8")
    (root / "pyproject.toml").write_text(
        f'[project]\nname = "{root.name}"\nversion = "1.0.0"\n\n'
        f'[project.entry-points."amplifier.modules"]\n{module_id} = "{name}:mount"\n',
        "utf-8",
    )
    return root


class HostedSession:
    """A session of modules on a host, for the block. The modules append to the list `ended` in their configuration."""

    def __init__(self, folder: Path, host: Host, plan: Mapping[str, Any]) -> None:
        self.plan: MountPlan
        self.plan, problems = read_plan(plan)
        assert problems == []
        self.ended: list[Any] = []
        config = {**plan, "ended": self.ended}
        self.session: ModuleSession = create_session(
            host, config, Resolver(folder), [folder], lambda: None, timeout=60.0
        )

    @property
    def coordinator(self) -> Any:
        """The coordinator of the modules."""
        return self.session.coordinator

    async def __aenter__(self) -> ModuleSession:
        """Begin the session."""
        await self.session.begin(self.plan)
        return self.session

    async def __aexit__(self, *_: object) -> None:
        """End the session."""
        await self.session.end()

"""A tool that asks for further input several times."""

from __future__ import annotations

from typing import Any

from mcp_bridge import CallContext, Form, ToolRegistry
from mcp_bridge._engine.authoring import tool
from mcp_bridge.questions import NeedsInput
from tests.kits.questions.asking_kit import NAME_SCHEMA

WHO = Form("Who?", NAME_SCHEMA)


def register_collect(registry: ToolRegistry, runs: list[Any]) -> None:
    """Register a tool that asks a question three times and collects the answers; `runs` has the input of each run."""

    @tool(registry=registry)
    def collect(ctx: CallContext) -> Any:
        """Collects."""
        runs.append(({key: answer.content for key, answer in ctx.answers.items()}, ctx.state))
        got = [*(ctx.state or ()), *(answer.content["name"] for answer in ctx.answers.values())]
        return NeedsInput({"name": WHO}, got) if len(got) < 3 else " ".join(got)

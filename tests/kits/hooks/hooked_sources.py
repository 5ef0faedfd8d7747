"""Settings with every type of source, and with an Amplifier module whose hooks apply to the tools of all of them."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

TOOLS = """
from mcp_bridge import CallContext, prompt, resource, tool

@tool
def {name}(word: str) -> dict[str, str]:
    return {{"word": word}}

@tool
async def {name}_calls(word: str, ctx: CallContext) -> str:
    result = await ctx.invoke("of_file", {{"word": word}})
    return str(result.code or result.output)
"""
MORE = """
@resource("note://one")
def note() -> str:
    return "a secret note"

@prompt
def greeting() -> str:
    return "a secret greeting"
"""
REGISTRY = """
from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge.tool_use import ChainStep, ToolChain

registry = ToolRegistry()
registry.register(ToolEntry("of_registry", "Echoes.", lambda data: {"word": data["word"]}, {"type": "object"}))
chain = ToolChain(registry).add_step(ChainStep("of_registry")).as_tool("of_chain")
"""
MODULE = """
class Echo:
    name, description = "of_module", "Echoes."
    input_schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}

    async def execute(self, input):
        return {"success": True, "output": {"word": input["word"]}, "error": None}

async def mount(coordinator, config):
    await coordinator.mount("tools", Echo())
"""
HOOKS = """
import anyio
from {package} import HookResult

def masked(value):
    if isinstance(value, dict):
        return {key: masked(item) for key, item in value.items()}
    return value.replace("secret", "***") if isinstance(value, str) else value

async def before(event, data):
    word = data["tool_input"].get("word", "")
    if word == "forbidden":
        return HookResult(action="deny", reason="a forbidden word")
    if word == "alias":
        return HookResult(action="modify", data={**data, "tool_input": {**data["tool_input"], "word": "real"}})
    if word == "spoilt":
        return HookResult(action="modify", data={**data, "tool_input": {"word": 5}})
    if word == "asked":
        return HookResult(action="ask_user", approval_prompt=f"{data['tool_name']}?")
    if word == "hang":
        await anyio.sleep_forever()
    if word == "crash":
        raise RuntimeError("hooks crash")
    return HookResult(action="inject_context", context_injection="Words matter.") if word == "noted" else None

def after(event, data):
    return HookResult(action="modify", data={"tool_result": masked(data["tool_result"])})

async def mount(coordinator, config):
    coordinator.hooks.register("tool:pre", before)
    coordinator.hooks.register("tool:post", after)
"""
TOOL_NAMES = ["of_chain", "of_file", "of_module", "of_registry", "of_worker"]
"""The tools, one of each type of source. Each returns its argument `word`."""


def write_settings(folder: Path, **more: Any) -> Path:
    """Write settings for all sources. `more` are options of the Amplifier source.

    With the `host` amplifier-core, the hooks import amplifier_core.
    """
    package = "amplifier_core" if more.get("host") == "core" else "mcp_bridge.amplifier"
    files = {"file": TOOLS.format(name="of_file") + MORE, "worker": TOOLS.format(name="of_worker")}
    files |= {"registry": REGISTRY, "module": MODULE, "hooks": HOOKS.replace("{package}", package)}
    for name, text in files.items():
        (folder / f"{name}_hooked.py").write_text(dedent(text))
    plan = {
        "tools": [{"module": "echo", "source": "module_hooked.py"}],
        "hooks": [{"module": "manners", "source": "hooks_hooked.py"}],
    }
    sources: list[dict[str, Any]] = [
        {"type": "python", "path": "file_hooked.py"},
        {"type": "python", "path": "registry_hooked.py"},
        {"type": "python", "path": "worker_hooked.py", "isolation": {"workers": 1}},
        {"type": "amplifier", "plan": plan, "hook_timeout": "60s", **more},
    ]
    (folder / "bridge.json").write_text(json.dumps({"sources": sources}))
    return folder / "bridge.json"

"""The offer of both servers in the differential tests. Each handler is async and deterministic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio

from mcp_bridge import (
    Audio,
    CallContext,
    EmbeddedResource,
    Form,
    Image,
    ResourceLink,
    Text,
    ToolEntry,
    ToolError,
    ToolRegistry,
)
from mcp_bridge._contracts.content import Message
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._contracts.resource import ResourceTemplate
from mcp_bridge.questions import Link, NeedsInput, Roots, Sampling
from mcp_bridge.sources import PromptArgument, PromptEntry, ResourceEntry

IDENTITY = Identity(name="twins", version="1.0", title="Twins", instructions="Compare them.", page=5, ttl_ms=1000)
PNG = b"\x89PNG\r\n\x1a\n"
TEXT: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NAME: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 2}},
    "required": ["name"],
}
NOTHING: dict[str, Any] = {"type": "object", "additionalProperties": False}
NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}
SUM: dict[str, Any] = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
PAIR: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}
LEVELS = ("debug", "info", "warning", "error")


async def echo(data: Mapping[str, Any]) -> str:
    return str(data["text"])


async def add(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"sum": data["a"] + data["b"]}


async def count(data: Mapping[str, Any]) -> list[int]:
    return [1, 2, 3]


async def show_blocks(data: Mapping[str, Any]) -> list[Any]:
    return [
        Text("text", annotations={"audience": ["user"], "priority": 0.5}),
        Image(PNG, "image/png"),
        Audio(b"RIFF", "audio/wav"),
        EmbeddedResource("test://text", "embedded", "text/plain"),
        EmbeddedResource("test://bytes", b"\x00\xff", "application/octet-stream"),
        ResourceLink("test://text", "text", mime_type="text/plain"),
    ]


async def report(data: Mapping[str, Any], ctx: CallContext) -> str:
    """Report progress and log at each level."""
    for step, level in enumerate(LEVELS):
        await ctx.report_progress(step, 3, f"step {step}")
        await ctx.log(level, {"step": step}, "oracle")
    return "reported"


async def refuse(data: Mapping[str, Any]) -> str:
    raise ToolError("not today", code="refused")


async def crash(data: Mapping[str, Any]) -> str:
    raise ZeroDivisionError("secret detail")


async def wait(data: Mapping[str, Any]) -> str:
    """Run until the client cancels the call."""
    await anyio.sleep_forever()
    return "never"


async def ask(data: Mapping[str, Any], ctx: CallContext) -> dict[str, Any]:
    answer = await ctx.ask("Your name?", NAME)
    return {"action": answer.action, "content": dict(answer.content)}


async def sample(data: Mapping[str, Any], ctx: CallContext) -> str:
    return (await ctx.sample("Say hello", max_tokens=10)).text


async def list_roots(data: Mapping[str, Any], ctx: CallContext) -> list[str]:
    return [root.uri for root in await ctx.roots()]


async def need_input(data: Mapping[str, Any], ctx: CallContext) -> Any:
    """Return the questions, and continue with the answers."""
    if not ctx.answers:
        return NeedsInput({"who": Form("Your name?", NAME), "where": Roots()}, state={"round": 1})
    return {"who": dict(ctx.answers["who"].content), "round": ctx.state["round"]}


async def open_page(data: Mapping[str, Any], ctx: CallContext) -> str:
    return (await ctx.ask("Sign in", url="https://example.com/login")).action


async def need_sampling(data: Mapping[str, Any], ctx: CallContext) -> Any:
    if not ctx.answers:
        return NeedsInput({"page": Link("Sign in", "https://example.com/"), "text": Sampling("Hello", max_tokens=3)})
    return [ctx.answers["page"].action, ctx.answers["text"].text]


async def change_tools(data: Mapping[str, Any], ctx: CallContext) -> str:
    """Add or remove one tool, and thereby change the list."""
    assert isinstance(ctx.caller, ToolRegistry)
    if not ctx.caller.unregister("zz_extra"):
        ctx.caller.register(ToolEntry("zz_extra", "Is there at times.", echo, TEXT))
    return "changed"


async def touch(data: Mapping[str, Any], ctx: CallContext) -> str:
    """Notify the subscribers of a resource."""
    ctx.resource_updated("test://text")
    return "touched"


async def read_text(data: Mapping[str, Any]) -> str:
    return "some text"


async def read_bytes(data: Mapping[str, Any]) -> bytes:
    return b"\x00\xff"


async def fail_to_read(data: Mapping[str, Any]) -> str:
    raise OSError("secret detail")


async def read_note(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"note": data["name"]}


async def read_file(data: Mapping[str, Any]) -> str:
    return "/".join(data["path"]) if isinstance(data["path"], list) else str(data["path"])


async def greet(data: Mapping[str, Any]) -> list[Any]:
    return [f"Hello {data['who']}", Message(Text(data.get("tone", "kind")), "assistant")]


async def show_plain(data: Mapping[str, Any]) -> str:
    return "plain"


async def fail_to_prompt(data: Mapping[str, Any]) -> str:
    raise KeyError("secret detail")


async def suggest_names(typed: str, arguments: Mapping[str, str]) -> list[str]:
    return ["Ada", "Alan", *sorted(arguments)]


ICONS = [{"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}]
TOOLS = [
    ToolEntry(
        "echo", "Says it again.", echo, TEXT, title="Echo", icons=ICONS, meta={"com.example/a": 1},
        annotations={"readOnlyHint": True},
    ),
    ToolEntry("add", "Adds.", add, PAIR, SUM),
    ToolEntry("count", "Counts.", count, NOTHING, NUMBERS),
    ToolEntry("with space", "Has an odd name.", echo, TEXT),
    *(
        ToolEntry(name, f"Tests {name}.", handler, {"type": "object"})
        for name, handler in {
            "blocks": show_blocks, "report": report, "refuse": refuse, "crash": crash, "wait": wait, "ask": ask,
            "sample": sample, "roots": list_roots, "need_input": need_input, "open_page": open_page,
            "need_sampling": need_sampling, "change_tools": change_tools, "touch": touch,
        }.items()
    ),
]  # fmt: skip
RESOURCES = [
    ResourceEntry("test://text", read_text, "text", "A text.", mime_type="text/plain", size=9, title="Text"),
    ResourceEntry("test://bytes", read_bytes, "bytes", mime_type="application/octet-stream", icons=ICONS),
    ResourceEntry("test://fails", fail_to_read, "fails", annotations={"priority": 0.1}),
    *(ResourceEntry(f"test://many/{number}", read_text) for number in range(4)),
]
TEMPLATES = [
    ResourceTemplate("test://notes/{name}", read_note, "note", completions={"name": ["ann", "bob", "anna"]}),
    ResourceTemplate("test://files{/path*}", read_file, "files", mime_type="text/plain"),
]
PROMPTS = [
    PromptEntry(
        "greeting", greet, "Says hello.", [PromptArgument("who", "Whom", required=True), PromptArgument("tone")],
        completions={"who": suggest_names, "tone": ["kind", "curt"]}, title="Greeting",
    ),
    PromptEntry("plain", show_plain),
    PromptEntry("fails", fail_to_prompt),
]  # fmt: skip


def make_registry() -> ToolRegistry:
    """Return a registry for one server."""
    registry = ToolRegistry()
    registry.publish("tests", TOOLS, resources=RESOURCES, templates=TEMPLATES, prompts=PROMPTS)
    return registry

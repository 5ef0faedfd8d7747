"""The tools of tests/specification. All servers share the functions, so the state of each server is in a `Memory`."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Annotated, Any
from weakref import WeakKeyDictionary

import anyio

from mcp_bridge import (
    Audio,
    CallContext,
    EmbeddedResource,
    Header,
    Image,
    ResourceLink,
    Text,
    ToolEntry,
    ToolError,
    ToolRegistry,
    ToolResult,
    tool,
)
from mcp_bridge.content import Content
from mcp_bridge.sources import PromptEntry, ResourceEntry

OFFERED = ToolRegistry()
"""Everything that each server publishes."""
PNG = b"\x89PNG\r\n\x1a\n"
WAV = b"RIFF\x00\x00\x00\x00WAVE"
SECRET = "hunter2"
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "additionalProperties": False}
NOTHING: dict[str, Any] = {"type": "object"}
ICONS = [
    {"src": src, "mimeType": "image/png", "sizes": ["48x48"]}
    for src in ("https://example.com/icon.png", "data:image/png;base64,AA==", "javascript:alert(1)", "file:///etc/icon")
]
META = {"com.example/label": {"kept": [1, 2]}}


@dataclass
class Guest:
    """A named guest with an age."""

    name: str
    age: int


@dataclass
class Memory:
    """The state of one server: started, released and cancelled calls by name, and the number of runs."""

    runs: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    kept: list[CallContext] = field(default_factory=list)
    _events: dict[tuple[str, str], anyio.Event] = field(default_factory=dict)

    def event(self, kind: str, name: str) -> anyio.Event:
        """The event of this kind and name."""
        return self._events.setdefault((kind, name), anyio.Event())


MEMORIES: WeakKeyDictionary[ToolRegistry, Memory] = WeakKeyDictionary()


def get_registry(ctx: CallContext) -> ToolRegistry:
    """Return the registry of the call's server."""
    assert isinstance(ctx.caller, ToolRegistry)
    return ctx.caller


def get_memory(ctx: CallContext) -> Memory:
    """Return the memory of the call's server."""
    return MEMORIES.setdefault(get_registry(ctx), Memory())


@tool(registry=OFFERED, icons=ICONS, meta=META, title="An echo", annotations={"readOnlyHint": True})
def echo(text: str) -> str:
    """Return the text."""
    return text


@tool(registry=OFFERED)
def person(name: str, age: int) -> Guest:
    """Return a guest with this name and age."""
    return Guest(name, age)


@tool(registry=OFFERED)
def place(region: Annotated[str, Header("Region")], level: Annotated[int, Header("Level")] = 0) -> str:
    """Return the arguments, which clients repeat in headers for intermediaries."""
    return f"{region} {level}"


@tool(registry=OFFERED)
def numbers(count: int) -> list[int]:
    """The first whole numbers."""
    return list(range(count))


@tool(registry=OFFERED)
def blocks() -> list[Content]:
    """One block of each kind."""
    return [
        Text("text", annotations={"audience": ["user"], "priority": 0.5}),
        Image(PNG, "image/png"),
        Audio(WAV, "audio/wav"),
        EmbeddedResource("test://text", "embedded", "text/plain"),
        EmbeddedResource("test://bytes", b"\x00\xff", "application/octet-stream"),
        ResourceLink("test://text", "text", mime_type="text/plain"),
    ]


@tool(registry=OFFERED)
def refuse(reason: str) -> str:
    """Fails with a reason."""
    raise ToolError(reason, code="refused")


@tool(registry=OFFERED)
def crash() -> str:
    """Fails unexpectedly."""
    raise RuntimeError(f"the password is {SECRET}")


@tool("liar", input_schema=NO_ARGUMENTS, output_schema={"type": "object", "required": ["truth"]}, registry=OFFERED)
def liar(data: Any) -> Any:
    """Returns a value that breaks its output schema."""
    return {"lie": True}


@tool("odd", input_schema=NO_ARGUMENTS, registry=OFFERED)
def odd(data: Any) -> Any:
    """Returns values that JSON or Unicode do not have."""
    return [float("nan"), "\ud800", b"\xff", {1: {2}}]


@tool("bad_block", input_schema=NO_ARGUMENTS, registry=OFFERED)
def bad_block(data: Any) -> Any:
    """Returns one good block, and one with content of the wrong type."""
    return [Text("good"), Image("not bytes", "image/png")]  # type: ignore[arg-type]


@tool(registry=OFFERED)
def noise() -> str:
    """Writes to standard output in every way, and returns its standard input."""
    print("noise: print ünï")
    os.write(1, "noise: descriptor ünï\n".encode())
    subprocess.run(["/bin/echo", "noise: child ünï"], check=True)
    return f"read {sys.stdin.read()!r}"


@tool("vendor", input_schema=NO_ARGUMENTS, registry=OFFERED)
def vendor(data: Any) -> ToolResult:
    """Has vendor fields in every possible place."""
    return ToolResult(content=[Text("text", meta=META)], meta=META)


@tool(registry=OFFERED)
async def hold(name: str, ctx: CallContext) -> str:
    """Report progress, and run until `let_go` is called."""
    await ctx.report_progress(1)
    text = await wait_until_released(name, ctx)
    await ctx.report_progress(2)
    return text


async def wait_until_released(name: str, ctx: CallContext) -> str:
    """Run until `let_go`. Record the start, and the end or the cancellation."""
    memory = get_memory(ctx)
    memory.event("begun", name).set()
    try:
        await memory.event("go", name).wait()
    except BaseException:
        memory.event("cancelled", name).set()
        raise
    memory.event("done", name).set()
    return "let go"


@tool(registry=OFFERED)
async def wait_for(kind: str, name: str, ctx: CallContext) -> str:
    """Return once `hold` with this name has begun, is done, or was cancelled."""
    await get_memory(ctx).event(kind, name).wait()
    return kind


@tool(registry=OFFERED)
async def let_go(name: str, ctx: CallContext) -> str:
    """Let `hold` with this name return."""
    get_memory(ctx).event("go", name).set()
    return "done"


@tool(registry=OFFERED)
def count(name: str, limit: int, ctx: CallContext) -> int:
    """Counts how often it ran under this name."""
    runs = get_memory(ctx).runs
    runs[name] = runs.get(name, 0) + 1
    return runs[name]


@tool(registry=OFFERED)
def counted(name: str, ctx: CallContext) -> int:
    """How often `count` ran under this name."""
    return get_memory(ctx).runs.get(name, 0)


@tool(registry=OFFERED)
async def steps(values: list[float], ctx: CallContext) -> str:
    """Reports each value as its progress."""
    for value in values:
        await ctx.report_progress(value, max(values), f"at {value}")
    return "done"


@tool(registry=OFFERED)
def add(kind: str, name: str, ctx: CallContext) -> str:
    """Add a tool, resource or prompt."""
    registry = get_registry(ctx)
    match kind:
        case "tools":
            registry.register(ToolEntry(name, "Came later.", lambda data: name, NOTHING))
        case "resources":
            registry.resources.add(ResourceEntry(f"test://{name}", lambda data: name))
        case "prompts":
            registry.prompts.add(PromptEntry(name, lambda arguments: name))
    return "added"


@tool(registry=OFFERED)
def remove_tool(name: str, ctx: CallContext) -> bool:
    """Remove a tool."""
    return get_registry(ctx).unregister(name)


@tool(registry=OFFERED)
async def keep(ctx: CallContext) -> str:
    """Reports progress, and keeps its context beyond its end."""
    await ctx.report_progress(1)
    get_memory(ctx).kept.append(ctx)
    return "kept"


@tool(registry=OFFERED)
async def use_kept(ctx: CallContext) -> str:
    """Sends messages for the call that has ended."""
    (context,) = get_memory(ctx).kept
    await context.report_progress(2)
    await context.log("emergency", "too late")
    return "used"


@tool(registry=OFFERED)
def touch(uri: str, ctx: CallContext) -> str:
    """Changes a resource."""
    versions = get_memory(ctx).versions
    versions[uri] = versions.get(uri, 1) + 1
    ctx.resource_updated(uri)
    return "touched"

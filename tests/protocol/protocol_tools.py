"""The tools of the protocol tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

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
    tool,
)
from mcp_bridge import ToolRegistry as Registry

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
class Person:
    """Somebody."""

    name: str
    age: int


def offer_tools(registry: Registry) -> None:
    """Tools that answer at once."""

    @tool(registry=registry, icons=ICONS, meta=META, title="An echo", annotations={"readOnlyHint": True})
    def echo(text: str) -> str:
        """Says it again."""
        return text

    @tool(registry=registry)
    def person(name: str, age: int) -> Person:
        """Somebody of this name and age."""
        return Person(name, age)

    @tool(registry=registry)
    def place(region: Annotated[str, Header("Region")], level: Annotated[int, Header("Level")] = 0) -> str:
        """Where it was sent to, for intermediaries to see."""
        return f"{region} {level}"

    @tool(registry=registry)
    def numbers(count: int) -> list[int]:
        """The first whole numbers."""
        return list(range(count))

    @tool(registry=registry)
    def blocks() -> list[Any]:
        """One block of each kind."""
        return [
            Text("text", annotations={"audience": ["user"], "priority": 0.5}),
            Image(PNG, "image/png"),
            Audio(WAV, "audio/wav"),
            EmbeddedResource("test://text", "embedded", "text/plain"),
            EmbeddedResource("test://bytes", b"\x00\xff", "application/octet-stream"),
            ResourceLink("test://text", "text", mime_type="text/plain"),
        ]

    @tool(registry=registry)
    def refuse(reason: str) -> str:
        """Fails, and says why."""
        raise ToolError(reason, code="refused")

    @tool(registry=registry)
    def crash() -> str:
        """Fails in a way that nobody expected."""
        raise RuntimeError(f"the password is {SECRET}")

    @tool(name="liar", input_schema=NO_ARGUMENTS, output_schema={"type": "object", "required": ["truth"]})
    def liar(data: Any) -> Any:
        """Promises what it does not keep."""
        return {"lie": True}

    @tool(name="odd", input_schema=NO_ARGUMENTS)
    def odd(data: Any) -> Any:
        """Answers with what JSON and Unicode do not have."""
        return [float("nan"), "\ud800", b"\xff", {1: {2}}]

    @tool(name="bad_block", input_schema=NO_ARGUMENTS)
    def bad_block(data: Any) -> Any:
        """One good block and one that is not what it says."""
        return [Text("good"), Image("not bytes", "image/png")]  # type: ignore[arg-type]

    for function in (liar, odd, bad_block):
        registry.register(function.tool_entry)


class Gates:
    """What has begun, what may end and what has ended, by the name that a test gave it."""

    def __init__(self) -> None:
        self._events: dict[tuple[str, str], anyio.Event] = {}

    def of(self, kind: str, name: str) -> anyio.Event:
        """The event of this kind and name."""
        return self._events.setdefault((kind, name), anyio.Event())


def offer_gates(registry: Registry) -> None:
    """Tools that run until they are let go or cancelled, and tools that tell of them."""
    gates = Gates()
    runs: dict[str, int] = {}

    @tool(registry=registry)
    async def hold(name: str, ctx: CallContext) -> str:
        """Runs until it is let go; says in which way it ended."""
        gates.of("begun", name).set()
        step = 0
        try:
            while not gates.of("go", name).is_set():
                step += 1
                await ctx.progress(step)
                await gates.of("go", name).wait()
        except BaseException:
            gates.of("cancelled", name).set()
            raise
        return "let go"

    @tool(registry=registry)
    async def wait_for(kind: str, name: str) -> str:
        """Answers once `hold` of this name has begun, or was cancelled."""
        await gates.of(kind, name).wait()
        return kind

    @tool(registry=registry)
    async def let_go(name: str) -> str:
        """Ends `hold` of this name."""
        gates.of("go", name).set()
        return "done"

    @tool(registry=registry)
    def count(name: str, limit: int) -> int:
        """Counts how often it ran under this name."""
        runs[name] = runs.get(name, 0) + 1
        return runs[name]

    @tool(registry=registry)
    def counted(name: str) -> int:
        """How often `count` ran under this name."""
        return runs.get(name, 0)

    @tool(registry=registry)
    async def steps(values: list[float], ctx: CallContext) -> str:
        """Reports each value as its progress."""
        for value in values:
            await ctx.progress(value, max(values), f"at {value}")
        return "done"


def offer_changes(registry: Registry) -> None:
    """Tools that change what is offered."""

    @tool(registry=registry)
    def add_tool(name: str) -> str:
        """One tool more."""
        registry.register(ToolEntry(name, "Came later.", lambda data: name, NOTHING))
        return "added"

    @tool(registry=registry)
    def remove_tool(name: str) -> bool:
        """One tool less."""
        return registry.unregister(name)

"""Tools that leak the secrets of their settings in every possible way."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import threading
import warnings
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from mcp_bridge import (
    CallContext,
    EmbeddedResource,
    Form,
    Message,
    ResourceLink,
    Text,
    ToolEntry,
    ToolError,
    ToolRegistry,
    tool,
)
from mcp_bridge.questions import NeedsInput
from mcp_bridge.sources import PromptArgument, PromptEntry, ResourceEntry, ResourceTemplate

ALL = [os.environ[name] for name in ("API_KEY", "STATE_KEY", "HTTP_TOKEN")]
SECRETS = " and ".join(ALL)
PIN = int(os.environ["PIN_SECRET"])
log = logging.getLogger("leaky")


class Spiteful:
    """An object that raises instead of returning its text."""

    def __str__(self) -> str:
        raise ValueError(f"no text: {SECRETS}")


class Dying:
    """An object that raises in its finalizer."""

    def __del__(self) -> None:
        raise ValueError(f"dying: {SECRETS}")


def _raises() -> None:
    raise ValueError(f"wrong: {SECRETS}")


def _chained() -> None:
    try:
        _raises()
    except ValueError as error:
        raise RuntimeError("something else") from error


def _grouped() -> None:
    raise ExceptionGroup(f"group {SECRETS}", [ValueError(SECRETS), KeyError(SECRETS)])


def _noted() -> None:
    error = ValueError("noted")
    error.add_note(f"note\n{SECRETS}")
    raise error


def _base_exception() -> None:
    raise BaseException(SECRETS)


def _tool_error() -> None:
    raise ToolError(f"the server said no to {SECRETS}", code="refused", details=[SECRETS])


def _in_thread() -> str:
    thread = threading.Thread(target=_raises, name=f"with {ALL[0]}")
    thread.start()
    thread.join()
    return "done"


def _in_del() -> str:
    dying = Dying()
    del dying
    gc.collect()
    return "done"


def _warns() -> str:
    warnings.warn(f"careful with {SECRETS}", stacklevel=1)
    return "done"


def _logs() -> str:
    log.error("plain %s", SECRETS)
    log.error("repr %r", {"a": ALL})
    log.error("json %s, url %s, base64 %s", json.dumps(ALL), quote(SECRETS), b64encode(SECRETS.encode()).decode())
    log.error("a stack %s", ALL[0], stack_info=True)
    log.error("too few %s %s", SECRETS)  # noqa: PLE1206 - on purpose
    log.error("spiteful %s", Spiteful())
    logging.getLogger("httpx").warning("Authorization: Bearer %s", ALL[0])
    logger = logging.getLogger("leaky.own")
    # The formatter of this handler keeps the traceback in the record.
    handler = logging.FileHandler(os.devnull)
    logger.addHandler(handler)
    try:
        _chained()
    except RuntimeError:
        logger.exception("with a handler of its own")
    logger.removeHandler(handler)
    handler.close()
    return "done"


RETURNS: dict[str, Any] = {
    "text": lambda: f"it is {SECRETS}.",
    "data": lambda: {"deep": [{"secret": ALL}], "n": 1},
    "keys": lambda: {SECRETS: 1, "more": {ALL[0]: {ALL[1]: []}}},
    "number": lambda: {"pin": PIN, "more": [PIN]},
    "json_text": lambda: json.dumps({"a": json.dumps(ALL), "b": ALL}),
    "repr_text": lambda: repr({"a": ALL}),
    "url": lambda: f"https://example.org/{quote(ALL[0], safe='')}?key={quote(ALL[0])}",
    "base64": lambda: f"Basic {b64encode(f'me:{ALL[0]}'.encode()).decode()}",
    "bytes": lambda: b"\x00\x01" + SECRETS.encode(),
    "blocks": lambda: [
        Text(SECRETS),
        ResourceLink(f"file:///{quote(ALL[0])}", SECRETS, description=SECRETS),
        EmbeddedResource("data:x", SECRETS, "text/plain"),
    ],
    "bytes_of_repr": lambda: repr(SECRETS.encode()),
    "environment": lambda: {key: value for key, value in os.environ.items() if value in ALL},
    "spiteful": Spiteful,
    "large": lambda: "x" * 990 + SECRETS + "y" * 3000 + SECRETS,
}
DOES = [_raises, _chained, _grouped, _noted, _base_exception, _tool_error, _in_thread, _in_del, _warns, _logs]


async def progresses(ctx: CallContext) -> str:
    """Report progress with the secrets."""
    await ctx.report_progress(1, 2, f"at {SECRETS}")
    return "done"


async def leaks(ctx: CallContext) -> str:
    """Send a log message with the secrets."""
    await ctx.log("error", {SECRETS: [SECRETS, PIN]}, logger=ALL[0])
    return "done"


async def asks(ctx: CallContext) -> str:
    """Ask a question with the secrets."""
    schema = {"type": "object", "properties": {"x": {"type": "string", "title": SECRETS, "default": ALL[0]}}}
    await ctx.ask(f"Is it {SECRETS}?", schema)
    return "done"


async def needs(ctx: CallContext) -> Any:
    """Return a question with the secrets."""
    if ctx.answers:
        return "done"
    return NeedsInput({"q": Form(f"Is it {SECRETS}?", {"type": "object", "properties": {"x": {"type": "string"}}})}, 1)


async def abandons() -> str:
    """Raise in an unawaited task."""

    async def work() -> None:
        _raises()

    task = asyncio.get_running_loop().create_task(work())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    del task
    gc.collect()
    return "done"


async def streams() -> AsyncIterator[str]:
    """Yield, then raise."""
    yield SECRETS
    _raises()


async def lies() -> Any:
    """Return a result that breaks the output schema."""
    return {"n": SECRETS}


def completes(value: str) -> list[str]:
    """Return completions with the secrets, or raise an error with them."""
    if value == "raise":
        _raises()
    if value == "odd":
        return [Spiteful()]  # type: ignore[list-item]
    return [f"{value}{SECRETS}"]


def _says(function: Any) -> Any:
    return lambda arguments: function()


def _prompts(arguments: dict[str, str]) -> Any:
    if arguments["x"] == "raise":
        _raises()
    return [Message(SECRETS), Message(f"more {ALL[0]}", role="assistant")]


def _reads(arguments: dict[str, str]) -> Any:
    if arguments.get("x") == "raise" or arguments.get("uri") == "leaky://raise":
        _raises()
    return {"uri": "x", "content": SECRETS, SECRETS: ALL}


REGISTRY = ToolRegistry()
for name, made in RETURNS.items():
    REGISTRY.register(ToolEntry(f"returns_{name}", SECRETS, _says(made)))
for does in DOES:
    REGISTRY.register(ToolEntry(f"does{does.__name__}", "Does.", _says(does)))
schema = {"type": "object", "properties": {ALL[0]: {"type": "string", "default": SECRETS, "enum": ALL}}}
REGISTRY.register(ToolEntry("with_schema", "Has it in its schema.", _says(lambda: SECRETS), schema))
lies = tool(output_schema={"type": "object", "properties": {"n": {"const": 1}}})(lies)
progresses, leaks, asks, needs, abandons, streams = map(tool, (progresses, leaks, asks, needs, abandons, streams))
one = ResourceEntry("leaky://one", _reads, ALL[0], SECRETS)
raising = ResourceEntry("leaky://raise", _reads, "raise", "")
its_uri = ResourceEntry(f"leaky://{quote(ALL[0], safe='')}", _reads, "its uri", "")
template = ResourceTemplate("leaky-x://{x}", _reads, "x", SECRETS, completions={"x": completes})
leaky = PromptEntry("leaky", _prompts, SECRETS, [PromptArgument("x", SECRETS)], completions={"x": completes})

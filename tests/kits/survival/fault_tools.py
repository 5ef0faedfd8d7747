"""Misbehaving tools: one for each kind of fault. The argument `kind` names the variant.

The tables are functions, because a source would publish other objects in the module.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anyio

from mcp_bridge import ToolResult, tool


class Own(BaseException):
    """A BaseException that only this tool knows."""


class Unspeakable(Exception):
    """An exception whose text raises another one."""

    def __str__(self) -> str:
        raise Own("no text")

    __repr__ = __str__


class Endless(Exception):
    """An exception whose text recurses without an end."""

    def __str__(self) -> str:
        return str(self)

    __repr__ = __str__


def list_exceptions() -> dict[str, Callable[[], BaseException]]:
    """Return the exceptions for tools."""
    return {
        "BaseException": lambda: BaseException("base"),
        "a BaseException of its own": lambda: Own("own"),
        "SystemExit with a code": lambda: SystemExit(3),
        "SystemExit with a text": lambda: SystemExit("the end"),
        "KeyboardInterrupt": KeyboardInterrupt,
        "GeneratorExit": GeneratorExit,
        "StopIteration": lambda: StopIteration(1),
        "StopAsyncIteration": StopAsyncIteration,
        "CancelledError": asyncio.CancelledError,
        "MemoryError": MemoryError,
        "ExceptionGroup": lambda: ExceptionGroup("several", [ValueError("one"), ExceptionGroup("in", [KeyError(2)])]),
        "a group with SystemExit": lambda: BaseExceptionGroup("several", [SystemExit(3), ValueError("one")]),
        "a group with CancelledError": lambda: BaseExceptionGroup("several", [asyncio.CancelledError(), Own()]),
        "an exception without a text": Unspeakable,
        "an exception whose text recurses": Endless,
        "an exception with a lone surrogate": lambda: ValueError("\ud800"),
    }


@tool
def raises(kind: str) -> str:
    """Raise it in a thread."""
    raise list_exceptions()[kind]()


@tool
async def raises_async(kind: str) -> str:
    """Raise it on the event loop."""
    raise list_exceptions()[kind]()


@tool
async def raises_later(kind: str) -> str:
    """Raise it after a pause."""
    await anyio.sleep(0.01)
    raise list_exceptions()[kind]()


async def _raise(kind: str) -> None:
    await anyio.sleep(0.01)
    raise list_exceptions()[kind]()


@tool
async def in_child(kind: str, how: str) -> str:
    """Raise it in a child task."""
    if how == "awaited":
        await asyncio.create_task(_raise(kind), name="child")
    elif how == "gather":
        await asyncio.gather(_raise(kind), asyncio.sleep(0.02))
    elif how == "asyncio.TaskGroup":
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_raise(kind))
            tasks.create_task(asyncio.sleep(60))
    elif how == "anyio task group":
        async with anyio.create_task_group() as group:
            group.start_soon(_raise, kind)
            group.start_soon(anyio.sleep, 60)
    elif how == "never awaited":
        child = asyncio.create_task(_raise(kind))
        await asyncio.wait([child])
    elif how == "left behind":
        asyncio.get_running_loop().call_soon(asyncio.ensure_future, _raise(kind))
    elif how == "call_soon":
        asyncio.get_running_loop().call_soon(_throw, kind)
        await anyio.sleep(0.02)
    elif how == "call_later":
        asyncio.get_running_loop().call_later(0.01, _throw, kind)
        await anyio.sleep(0.05)
    return "answered"


def _throw(kind: str) -> None:
    raise list_exceptions()[kind]()


@tool
def from_a_thread(kind: str) -> str:
    """Raise it on the event loop, from a thread."""
    anyio.from_thread.run(_raise, kind)
    return "answered"


def _recurse() -> None:
    _recurse()


async def _recurse_async() -> None:
    await _recurse_async()


@tool
def recurses() -> None:
    """Recurse without end."""
    _recurse()


@tool
async def recurses_async() -> None:
    """Recurse without end, on the event loop."""
    await _recurse_async()


@tool
async def cancels_itself(how: str) -> str:
    """Cancel the task of the call."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    if how == "and waits":
        await anyio.sleep(60)
    if how == "and goes on":
        try:
            await anyio.sleep(60)
        except asyncio.CancelledError:
            await anyio.sleep(0.01)
    return "answered"


class Odd:
    """An object with one method that raises."""

    def __init__(self, where: str) -> None:
        self.where = where

    def _reached(self, where: str) -> None:
        if self.where == where:
            raise SystemExit(f"in {where}")

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        self._reached("__class__")
        return Odd

    def __getattr__(self, name: str) -> Any:
        self._reached("__getattr__")
        raise AttributeError(name)

    def __str__(self) -> str:
        self._reached("__str__")
        return str(self) if self.where == "recursion" else "odd"

    __repr__ = __str__


class Model:
    """A model that raises when it is read."""

    def model_dump(self, **_: Any) -> Any:
        raise KeyboardInterrupt


class Row(Sequence[int]):
    """A sequence that raises during the iteration, or has no end."""

    def __init__(self, *, endless: bool = False) -> None:
        self.endless = endless

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: Any) -> Any:
        raise Own("no items")

    def __iter__(self) -> Iterator[int]:
        if self.endless:
            return itertools.count()
        raise Own("no items")


def list_results() -> dict[str, Callable[[], Any]]:
    """Return the results for tools."""
    return {
        "a lone surrogate": lambda: "a\ud800b",
        "a lone surrogate in a value": lambda: {"text": ["a\udfffb"]},
        "a lone surrogate in a key": lambda: {"a\ud800b": 1},
        "NaN": lambda: {"nan": math.nan, "inf": [math.inf, -math.inf]},
        "a cycle": _cycle,
        "bytes": lambda: b"\x00\xff",
        "bytes inside": lambda: {"data": b"\x00\xff"},
        "a set": lambda: {7},
        "an object": lambda: Odd(""),
        "a generator": lambda: (number for number in range(3)),
        "a generator without end": lambda: (number for number in itertools.count()),
        "a coroutine function": lambda: _raise,
        "a coroutine": lambda: asyncio.sleep(0, "slept"),
        "deep nesting": _deep,
        "an int beyond 64 bits": lambda: {"number": 2**70},
        "an int of 5000 digits": lambda: {"number": 10**5000},
        "100 MB of text": lambda: "x" * 100_000_000,
        "keys that are no text": lambda: {1: "a", None: "b", (1, 2): "c", 1.5: "d", b"e": "e"},
        "a key without a text": lambda: {Odd("__str__"): 1},
        "an object that raises in __class__": lambda: Odd("__class__"),
        "an object that raises in __getattr__": lambda: Odd("__getattr__"),
        "an object that raises in __str__": lambda: Odd("__str__"),
        "an object whose text recurses": lambda: Odd("recursion"),
        "an object that raises in __iter__": Row,
        "an object that raises in model_dump": Model,
        "a ToolResult with an odd block": lambda: ToolResult(content=[object(), Odd("__str__")]),  # type: ignore[list-item]
        "a ToolResult with odd texts": lambda: ToolResult(success=False, error=Odd("__str__"), code=b"x"),  # type: ignore[arg-type]
    }


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


def _deep() -> list[Any]:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    return deep


@tool
def value(kind: str) -> Any:
    """Answer with it."""
    return list_results()[kind]()


@tool
async def value_async(kind: str) -> Any:
    """Answer with it."""
    return list_results()[kind]()


@tool
async def yields_without_end() -> Any:
    """Return an async generator without pauses and without an end."""

    async def numbers() -> Any:
        for number in itertools.count():
            yield number

    return numbers()


def list_stream_faults() -> dict[str, Callable[[], Any]]:
    """Return the operations on the standard streams."""
    child = "import sys; print('child', flush=True); print('child', file=sys.stderr)"
    return {
        "print": lambda: print("printed", flush=True),
        "sys.stdout.write": lambda: (sys.stdout.write("written\n"), sys.stdout.flush()),
        "sys.__stdout__": lambda: print("printed", file=sys.__stdout__, flush=True),
        "bytes in sys.stdout": lambda: (sys.stdout.buffer.write(b"\xff\x00\n"), sys.stdout.flush()),
        "a write to descriptor 1": lambda: os.write(1, b"raw\n"),
        "a write from C": lambda: (ctypes.CDLL(None).puts(b"from C"), ctypes.CDLL(None).fflush(None)),
        "a lone surrogate": lambda: print("\ud800", flush=True),
        "a child that prints": lambda: subprocess.run([sys.executable, "-c", child], check=True),
        "a shell that prints": lambda: os.system("echo shell"),
        "input": lambda: input("name? "),
        "a read of descriptor 0": lambda: len(os.read(0, 100)),
        "sys.stdin.read": lambda: sys.stdin.read(),
        "a child that reads": lambda: subprocess.run([sys.executable, "-c", "input()"], stderr=subprocess.DEVNULL),
        "a flood on stderr": _flood,
        "stdout replaced": lambda: setattr(sys, "stdout", object()),
        "stdout gone": lambda: setattr(sys, "stdout", None),
        "stdout closed": lambda: sys.stdout.close(),
        "stderr replaced": lambda: setattr(sys, "stderr", None),
        "descriptor 0 closed": lambda: os.close(0),
        "descriptor 1 closed": lambda: os.close(1),
        "descriptor 2 closed": lambda: os.close(2),
    }


def _flood() -> None:
    for _ in range(5):
        os.write(2, b"x" * 999_999 + b"\n")


@tool
def streams(kind: str) -> str:
    """Do it in a thread."""
    return f"answered {list_stream_faults()[kind]() is None}"


@tool
async def streams_async(kind: str) -> str:
    """Do it on the event loop."""
    return f"answered {list_stream_faults()[kind]() is None}"

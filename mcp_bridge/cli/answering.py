"""`approvals`: a person at a terminal answers what bridges ask."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio

from mcp_bridge.approvals.approver import Asked, News, Visits
from mcp_bridge.approvals.decisions import HURRIED, Scope
from mcp_bridge.cli.exits import say
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.runtime.thread_pool import from_any_thread

WORDS: dict[str, Scope] = {
    "y": "once", "yes": "once", "once": "once",
    "s": "session", "session": "session",
    "a": "always", "always": "always",
    "n": "deny", "no": "deny", "deny": "deny",
}  # fmt: skip
"""What a person may type."""
_KEYS: dict[str, str] = {"once": "y = once", "session": "s = for the session", "always": "a = always"}
_BECAME = {
    "another": "somebody else was faster",
    "withdrawn": "nobody waits for an answer any more",
    "late": "nobody waits for an answer any more",
    "lost": "its bridge has ended",
}


class Terminal:
    """The questions that wait, shown one after the other; what is typed answers the one that is shown.

    An answer may name its question, `y 3`. One that does not is taken only where the question has been there for long
    enough to be read: what was typed for another must not answer it.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.visits = Visits(folder, self.hear, lambda name: say(f"connected to {name}"))
        self._clock = clock
        self._asked: dict[int, Asked] = {}
        self._shown: tuple[int, float] | None = None

    def hear(self, heard: Asked | News) -> None:
        """A bridge asks, or a question has come to its end."""
        if isinstance(heard, Asked):
            self._asked[heard.number] = heard
        elif heard.how == "unfit":
            say(f"[{heard.number}] that cannot be answered here")
            return
        elif self._asked.pop(heard.number, None) is not None:
            say(f"[{heard.number}] {_BECAME.get(heard.how) or _said(heard.choice)}")
        self._show()

    async def read(self, line: str) -> None:
        """What the person has typed."""
        word, _, named = line.strip().lower().partition(" ")
        scope = WORDS.get(word)
        number = self._named(named)
        if not word:
            self._show(again=True)
        elif scope is None:
            say("Type y, s, a or n; or with the number of a question, such as: y 3")
        elif number is None:
            say(self._unnamed(named))
        elif scope != "deny" and scope not in self._asked[number].scopes:
            say(f"[{number}] that cannot be answered here; {_choices(self._asked[number])}")
        elif not await self.visits.answer(number, scope):
            self.hear(News(number, "lost"))

    def _named(self, named: str) -> int | None:
        """The question that an answer is for; None where there is none."""
        if named:
            return int(named) if named.isdecimal() and int(named) in self._asked else None
        if self._shown is None or self._clock() - self._shown[1] < HURRIED:
            return None
        return self._shown[0]

    def _unnamed(self, named: str) -> str:
        """What to say to an answer that is for no question."""
        if not self._asked:
            return "Nothing is asked."
        if named:
            return f"There is no question '{named[:20]}'. Waiting: {', '.join(map(str, self._asked))}"
        return "Read it first, then answer again, or name its number."

    def _show(self, *, again: bool = False) -> None:
        """Show the question that is next."""
        first = next(iter(self._asked.values()), None)
        if first is None:
            self._shown = None
            return
        if self._shown is not None and self._shown[0] == first.number and not again:
            return
        self._shown = first.number, self._clock()
        say(f"[{first.number}] {first.bridge} asks about tool '{first.tool}'")
        for line in first.prompt.split("\n"):
            say(f"  | {line}")
        say(f"  arguments: {first.arguments}\n  {_choices(first)}")


def _choices(asked: Asked) -> str:
    return ", ".join([*(_KEYS[scope] for scope in asked.scopes if scope in _KEYS), "n = no"])


def _said(choice: str) -> str:
    return "denied" if choice == "deny" else f"allowed: {choice}"


def answer(folder: Path, served: Path) -> None:
    """Answer until the person has enough: Ctrl-C, or the end of what they type. Raises ConfigError."""
    say(f"Waiting for questions about the calls of {served}. Press Ctrl-C to stop.")
    with suppress(KeyboardInterrupt):
        anyio.run(_answer, folder)


async def _answer(folder: Path) -> None:
    terminal = Terminal(folder)
    sender, typed = anyio.create_memory_object_stream[str](1000)
    soon = from_any_thread()

    def push(line: str) -> None:
        with suppress(anyio.WouldBlock):
            sender.send_nowait(line)

    typing = (lambda line: soon(partial(push, line)), lambda: soon(sender.close))
    threading.Thread(target=_type, args=typing, daemon=True).start()
    with sender, typed:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(terminal.visits.run)
                async for line in typed:
                    await terminal.read(line)
                tasks.cancel_scope.cancel()
        except* PermissionError as group:
            refused = str(group.exceptions[0])
        else:
            return
    raise ConfigError(refused, where="approvals.sockets")


def _type(line: Callable[[str], object], end: Callable[[], object]) -> None:
    """What comes on standard input, line by line. Read without Python's own lock, which a thread would keep at exit."""
    rest = b""
    with suppress(OSError, RuntimeError):
        try:
            while data := os.read(0, 4096):
                *lines, rest = (rest + data).split(b"\n")
                rest = rest[-4096:]
                for one in lines:
                    line(one.decode(errors="replace"))
        finally:  # also where the terminal has gone: who cannot answer must not look as if they could
            end()

"""A limiter: a number of tokens, and a queue in order of arrival for those who wait for one."""

from __future__ import annotations

import math
from collections import deque

import anyio


class Tokens:
    """At most `size` are out, but for those that are had again: what was lent is taken back without waiting."""

    __slots__ = ("_size", "_turns", "out")

    def __init__(self, size: int) -> None:
        self._size = size
        self._turns: deque[anyio.Event] = deque()
        self.out = 0

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return len(self._turns)

    def at_once(self) -> bool:
        """Take one if there is one; whether there was."""
        if self.out >= self._size:
            return False
        self.out += 1
        return True

    async def take(self) -> None:
        """Take one, in turn."""
        if self.at_once():
            return
        turn = anyio.Event()
        self._turns.append(turn)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self.give()
            else:
                self._turns.remove(turn)
            raise

    def again(self) -> None:
        """Take back what was lent."""
        self.out += 1

    def give(self) -> None:
        """Give one to whoever is next."""
        self.out -= 1
        while self._turns and self.out < self._size:
            self.out += 1
            self._turns.popleft().set()


class Token:
    """One of them, held by a call: it is lent to others while a person is asked."""

    __slots__ = ("_closed", "_held", "_tokens")
    deadline = math.inf

    def __init__(self, tokens: Tokens) -> None:
        """One that has been taken."""
        self._tokens = tokens
        self._closed, self._held = False, True

    def pause(self) -> None:
        """Lend it."""
        if self._held:
            self._held = False
            self._tokens.give()

    def resume(self) -> None:
        """Have it again."""
        if not self._closed and not self._held:
            self._held = True
            self._tokens.again()

    def close(self) -> None:
        """Give it back for good."""
        self.pause()
        self._closed = True

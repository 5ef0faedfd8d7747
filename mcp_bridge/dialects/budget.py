"""How much a rewritten schema may come to: references and alternatives multiply what a stranger wrote."""

from __future__ import annotations


class Stays(Exception):
    """Why something of a schema stays as it is."""


class Budget:
    """An amount that is spent in parts; `beyond` says what is so when there is no more."""

    def __init__(self, amount: int, beyond: str) -> None:
        self._left = amount
        self._beyond = beyond

    def spend(self, amount: int = 1) -> None:
        """Take a part of it. Raises Stays when that is more than is left."""
        self._left -= amount
        if self._left < 0:
            raise Stays(self._beyond)

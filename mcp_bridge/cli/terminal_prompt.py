"""Asks the user at the terminal to confirm or to choose from a list."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import anyio

from mcp_bridge.cli.output import report
from mcp_bridge.contracts.question import Answer, Form, Question
from mcp_bridge.runtime.stdio_descriptors import Descriptor
from mcp_bridge.schema.forms import SINGLE_PROPERTY, create_form

_CONFIRMATION = {"Yes": "accept", "No": "decline"}


class TerminalPrompt:
    """Asks one question at a time on stderr, and reads the answers from the terminal `source`."""

    def __init__(self, source: int) -> None:
        self._input = Descriptor(source)
        self._lock = anyio.Lock()

    async def ask_choice(self, question: Question) -> Answer | None:
        """Return the user's answer, or None for a question that needs more than a choice. Raises ValueError."""
        choices = _list_choices(question)
        if choices is None:
            return None
        assert isinstance(question, Form)
        async with self._lock:
            self._discard_input()
            choice = await self._choose(question.message, choices)
        if choice is None:
            return Answer(action="cancel")
        if question.schema is None:
            return Answer(action="accept" if choice == "accept" else "decline")
        content = {SINGLE_PROPERTY: choice}
        return Answer(action="accept", content=content, data=create_form(question.schema).read_answer(content))

    async def _choose(self, message: str, choices: Mapping[str, str]) -> str | None:
        """Return the value of a choice, or None if the user cancels."""
        report(message, *(f"  {number} = {label}" for number, label in enumerate(choices, start=1)))
        known = {label.casefold(): value for label, value in choices.items()}
        known |= {str(number): value for number, value in enumerate(choices.values(), start=1)}
        while True:
            report("Type a number. An empty line cancels.")
            line = await self._read_line()
            if not line or line.casefold() in known:
                return known[line.casefold()] if line else None

    async def _read_line(self) -> str:
        data = b""
        while not data.endswith(b"\n") and (more := await self._input.read()):
            data += more
        return data.decode(errors="replace").strip()

    def _discard_input(self) -> None:
        """Discard what was typed before the question appeared."""
        if sys.platform != "win32":
            import termios

            with suppress(termios.error):
                termios.tcflush(self._input.fd, termios.TCIFLUSH)


def _list_choices(question: Question) -> Mapping[str, str] | None:
    """Return the choices of a question by label, or None if it is not a choice."""
    if not isinstance(question, Form):
        return None
    if question.schema is None:
        return _CONFIRMATION
    properties: Mapping[str, Any] = create_form(question.schema).schema["properties"]
    field = properties.get(SINGLE_PROPERTY, {}) if len(properties) == 1 else {}
    titled = field.get("oneOf") or [{"const": value} for value in field.get("enum", [field.get("const")])]
    choices = {choice.get("title", choice.get("const")): choice.get("const") for choice in titled}
    return choices if all(isinstance(value, str) for value in choices.values()) else None

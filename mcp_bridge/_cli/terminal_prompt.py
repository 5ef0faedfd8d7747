"""Asks the user at the terminal to confirm something, to fill in a form, or to open a page."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

import anyio

from mcp_bridge._cli.choices import find_choice
from mcp_bridge._cli.form_fields import CONFIRMATION, YES, FormField, list_fields
from mcp_bridge._cli.held_output import hold_output
from mcp_bridge._contracts.question import Answer, Form, Link, Question
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.stdio_descriptors import Descriptor
from mcp_bridge._runtime.terminal_text import escape_text

if TYPE_CHECKING:
    from mcp_bridge._server.questions.requests import QuestionRequest


class TerminalPrompt:
    """Asks one question at a time on stderr, and reads the answers from the terminal `source`.

    Meanwhile, all other output waits.

    It gets the same requests as a client that supports all kinds of forms, and returns the same responses.

    Attributes:
        capabilities: The capabilities of a terminal, in the form of MCP.
    """

    capabilities: ClassVar[Mapping[str, Any]] = {"elicitation": {"form": {}, "url": {}}}

    def __init__(self, source: int) -> None:
        self._input = Descriptor(source)
        self._lock = anyio.Lock()
        self._terminal: TextIO = sys.stderr

    async def ask_user(self, question: Question) -> Answer[Any] | None:
        """Return the user's answer, or None for other questions than forms and links. Raises ValueError."""
        if not isinstance(question, Form | Link):
            return None
        # Imported late, because most calls ask no question.
        from mcp_bridge._server.questions.requests import to_request

        request = to_request(question, "")
        async with self._lock:
            with hold_output() as self._terminal:
                return await self._ask_until_valid(question, request)

    async def _ask_until_valid(self, question: Form | Link, request: QuestionRequest) -> Answer[Any]:
        from mcp_bridge._server.questions.requests import AnswerMismatch

        self._discard_input()
        self._show(request.params["message"])
        while True:
            if isinstance(question, Form) and question.schema is not None:
                response = await self._fill_in_form(request)
            else:
                response = await self._confirm(request)
            try:
                answer: Answer[Any] = request.read(response)
                return answer
            except AnswerMismatch as error:
                for problem in error.problems:
                    self._show(f"This is not valid: {problem.removeprefix('$.')}")

    async def _confirm(self, request: QuestionRequest) -> dict[str, Any]:
        if "url" in request.params:
            self._show(f"  {request.params['url']}", "Open this page in your browser?")
        for option in CONFIRMATION:
            self._show(f"  {option}")
        while True:
            self._show("Type the number of your choice. An empty line cancels.")
            line = await self._read_line()
            if not line:
                return {"action": "cancel"}
            choice = find_choice(CONFIRMATION, line)
            if choice is not None:
                return {"action": "accept" if choice.value == YES else "decline"}

    async def _fill_in_form(self, request: QuestionRequest) -> dict[str, Any]:
        assert request.form is not None
        content: dict[str, Any] = {}
        fields = list_fields(request.params["requestedSchema"], request.form)
        for number, field in enumerate(fields, start=1):
            heading = field.heading
            if heading:
                self._show(f"[{number}/{len(fields)}] {heading}" if len(fields) > 1 else heading)
            for choice in field.choices:
                self._show(f"  {choice}")
            values = await self._fill_in_field(field)
            if values is None:
                return {"action": "cancel"}
            content |= values
        return {"action": "accept", "content": content}

    async def _fill_in_field(self, field: FormField) -> dict[str, Any] | None:
        """Ask until the value is valid.

        Return a dict with the value by its name, an empty dict if the user leaves the field out, or None to cancel.
        """
        while True:
            self._show(field.instruction)
            line = await self._read_line()
            if line is None:
                return None
            if not line:
                if "default" in field.schema:
                    return {field.name: field.schema["default"]}
                return None if field.is_required else {}
            try:
                return {field.name: field.parse_line(line)}
            except ValueError as error:
                self._show(f"This is not valid: {error}")

    def _show(self, *texts: str) -> None:
        for text in texts:
            print(escape_text(text), file=self._terminal, flush=True)

    async def _read_line(self) -> str | None:
        """Return a line without its white space, or None at the end of input."""
        data = b""
        while not data.endswith(b"\n"):
            chunk = await self._input.read()
            if not chunk:
                break
            data += chunk
        return data.decode(errors="replace").strip() if data else None

    def _discard_input(self) -> None:
        """Discard earlier input: it cannot be an answer to the question."""
        system.discard_input(self._input.fd)

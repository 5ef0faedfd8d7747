"""`approvals`: lets the user answer the approval requests of running bridges in a terminal.

`RunningBridges` connects to the private sockets of all bridges in a folder, and reports their questions.
`ApprovalTerminal` shows them one after the other, and reads the answers.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge._cli.approvals import load_approval_settings
from mcp_bridge._cli.choices import Choice, find_choice
from mcp_bridge._cli.options import AnswerOptions
from mcp_bridge._cli.output import report
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._policies.approvals.decisions import MIN_READING_TIME
from mcp_bridge._policies.approvals.policy import get_socket_folder
from mcp_bridge._runtime.thread_pool import make_call_soon
from mcp_bridge._web.client import OperatorClient, OperatorError, OperatorEvent
from mcp_bridge._web.operator_socket import list_sockets

logger = logging.getLogger("mcp_bridge.approvals")

SEARCH_INTERVAL = 0.5
"""Seconds between two searches for new bridges."""
CHOICES = (
    Choice("once", "y", "once", ("yes",)),
    Choice("session", "s", "for the session", ("session",)),
    Choice("always", "a", "always"),
    Choice("deny", "n", "no", ("deny",)),
)
"""What the user may type. The value is the scope of the approval."""
_OUTCOMES = {
    "elsewhere": "answered elsewhere",
    "withdrawn": "no longer waiting for an answer",
    "lost": "its bridge has stopped",
}


def answer_bridges(options: AnswerOptions) -> None:
    """Answer the requests of the bridges with these settings, until Ctrl-C or end of input. Raises ConfigError."""
    settings = load_approval_settings(options.file)
    if settings.approvals.terminal is None:
        raise ConfigError("approvals in a terminal are switched off", where="approvals.terminal", hint="Set it to true")
    report(f"Waiting for approval requests about the calls of {settings.path}. Press Ctrl-C to stop.")
    with suppress(KeyboardInterrupt):
        anyio.run(_answer_requests, get_socket_folder(settings.path))


async def _answer_requests(folder: Path) -> None:
    terminal = ApprovalTerminal(folder)
    sender, lines = anyio.create_memory_object_stream[str](1000)
    run_soon = make_call_soon()

    def push(line: str) -> None:
        with suppress(anyio.WouldBlock):
            sender.send_nowait(line)

    # The thread passes lines, and the end of the input, to the event loop.
    callbacks = (lambda line: run_soon(partial(push, line)), lambda: run_soon(sender.close))
    threading.Thread(target=_read_lines, args=callbacks, daemon=True).start()
    with sender, lines:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(terminal.bridges.run)
                async for line in lines:
                    await terminal.read(line)
                tasks.cancel_scope.cancel()
        except* PermissionError as group:
            problem = str(group.exceptions[0])
        else:
            return
    raise ConfigError(problem, where="approvals.sockets")


def _read_lines(receive: Callable[[str], object], close: Callable[[], object]) -> None:
    """Read lines until the end of the input, and then call `close` to end the command."""
    # The descriptor is read, because a daemon thread in sys.stdin would hold its lock when the interpreter exits.
    unfinished = b""
    with suppress(OSError, RuntimeError):
        try:
            data = os.read(0, 4096)
            while data:
                *lines, unfinished = (unfinished + data).split(b"\n")
                unfinished = unfinished[-4096:]
                for line in lines:
                    receive(line.decode(errors="replace"))
                data = os.read(0, 4096)
        finally:
            close()


@dataclass(frozen=True, eq=False)
class TerminalQuestion:
    """A question of a bridge. `number` is unique among all bridges of the folder, `id` only in the bridge."""

    number: int
    bridge: str
    tool: str
    message: str
    arguments: str
    scopes: tuple[str, ...]
    id: int = 0


@dataclass(frozen=True)
class QuestionUpdate:
    """A change of a question's state.

    `how` is `here` or `elsewhere` (where it was answered), `withdrawn`, `invalid` (the answer is not a choice) or
    `lost` (the bridge has ended).
    """

    number: int
    how: str
    choice: str = ""


class RunningBridges:
    """The bridges with a socket in a folder.

    `on_message` receives their questions and the updates of these. `on_connect` receives the name of each bridge.
    """

    def __init__(
        self,
        folder: Path,
        on_message: Callable[[TerminalQuestion | QuestionUpdate], None],
        on_connect: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._folder = folder
        self._on_message = on_message
        self._on_connect = on_connect
        self._numbers = itertools.count(1)
        self._clients: dict[Path, OperatorClient] = {}
        self._open: dict[int, tuple[OperatorClient, TerminalQuestion]] = {}

    async def run(self) -> None:
        """Stay connected to all bridges until cancelled. Raises PermissionError if others can write to the folder."""
        async with anyio.create_task_group() as tasks:
            while True:
                for path in list_sockets(self._folder):
                    if path not in self._clients:
                        self._clients[path] = OperatorClient(socket=path)
                        tasks.start_soon(self._follow_bridge, path, self._clients[path])
                await anyio.sleep(SEARCH_INTERVAL)

    async def answer_question(self, number: int, choice: str) -> bool:
        """Answer a question. Return False if its bridge is no longer connected."""
        if number not in self._open:
            return False
        # It is removed first. Otherwise, the event about this answer would be reported as one from elsewhere.
        client, question = self._open.pop(number)
        try:
            await client.answer_approval(question.id, choice)
        except OperatorError as error:
            if error.status == 400:
                self._open[number] = client, question
                self._on_message(QuestionUpdate(number, "invalid"))
                return True
            if error.status != 404:
                return False
            self._on_message(QuestionUpdate(number, "withdrawn"))
            return True
        self._on_message(QuestionUpdate(number, "here", choice))
        return True

    async def _follow_bridge(self, path: Path, client: OperatorClient) -> None:
        """Report the questions of a bridge until it ends."""
        name = ""
        try:
            async for event in client.follow_events():
                if event.name == "lost":
                    break
                if event.name == "reset":
                    state = await client.read_state()
                    if not name:
                        name = f"{state['server']['name']} ({int(state['server']['pid'])})"
                        self._on_connect(name)
                    for row in state["questions"]:
                        self._add_question(client, name, row)
                elif event.name == "question":
                    self._add_question(client, name, event.data)
                elif event.name == "answered":
                    self._report_answer(client, event)
        except (OperatorError, ValueError, LookupError, TypeError) as error:
            logger.debug("lost the connection to a bridge: %r", error)
        except anyio.get_cancelled_exc_class():
            # The user ends the command. The bridge has not ended, so its questions are not reported as lost.
            self._open.clear()
            raise
        finally:
            del self._clients[path]
            for number in self._list_numbers(client):
                del self._open[number]
                self._on_message(QuestionUpdate(number, "lost"))

    def _list_numbers(self, client: OperatorClient, id: int | None = None) -> list[int]:
        """Return the numbers of a bridge's open questions, or of the one with this id."""
        numbers: list[int] = []
        for number, (owner, question) in self._open.items():
            if owner is client and id in (None, question.id):
                numbers.append(number)
        return numbers

    def _add_question(self, client: OperatorClient, bridge: str, row: Mapping[str, Any]) -> None:
        """Report a question for approval, unless it has been reported already."""
        if row["kind"] != "approval" or self._list_numbers(client, int(row["id"])):
            return
        arguments = row["arguments"]
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        question = TerminalQuestion(
            next(self._numbers),
            bridge,
            tool=str(row["tool"]),
            message=str(row["message"]),
            arguments=arguments,
            scopes=tuple(str(scope) for scope in row["choices"]),
            id=int(row["id"]),
        )
        self._open[question.number] = client, question
        self._on_message(question)

    def _report_answer(self, client: OperatorClient, event: OperatorEvent) -> None:
        how = "withdrawn" if event.data["how"] == "withdrawn" else "elsewhere"
        for number in self._list_numbers(client, int(event.data["id"])):
            del self._open[number]
            self._on_message(QuestionUpdate(number, how))


class ApprovalTerminal:
    """Shows the pending requests one after the other. The user answers the request on the screen.

    An answer may contain the number of its request, as in `y 3`. Without a number, it counts only after the request has
    been on the screen for `MIN_READING_TIME` seconds, because the user may have typed it for the previous request.

    Messages about anything but the request on the screen wait until it is answered.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.bridges = RunningBridges(folder, self.handle_message, self._report_connection)
        self._clock = clock
        self._waiting_lines: list[str] = []
        self._pending: dict[int, TerminalQuestion] = {}
        self._shown: tuple[int, float] | None = None

    def handle_message(self, event: TerminalQuestion | QuestionUpdate) -> None:
        if isinstance(event, TerminalQuestion):
            self._pending[event.number] = event
        elif event.how == "invalid":
            report(f"[{event.number}] this answer is not possible here")
            return
        elif self._pending.pop(event.number, None) is not None:
            outcome = "denied" if event.choice == "deny" else f"approved: {event.choice}"
            line = f"[{event.number}] {_OUTCOMES.get(event.how) or outcome}"
            is_on_screen = self._shown is not None and self._shown[0] == event.number
            if is_on_screen or event.how == "here":
                report(line)
            else:
                self._waiting_lines.append(line)
        self._show_next()

    def _report_connection(self, name: str) -> None:
        self._waiting_lines.append(f"connected to {name}")
        self._show_next()

    async def read(self, line: str) -> None:
        """Handle a line of the user, such as `y` or `y 3`. An empty line shows the request again."""
        word, _, number_text = line.strip().lower().partition(" ")
        choice = find_choice(CHOICES, word)
        number = self._find_number(number_text)
        if not word:
            self._shown = None
            self._show_next()
        elif choice is None:
            report("Type y, s, a or n, optionally with the number of a request: y 3")
        elif number is None:
            report(self._explain_missing(number_text))
        elif choice.value not in self._pending[number].scopes:
            report(f"[{number}] this answer is not possible here; {_list_choices(self._pending[number])}")
        elif not await self.bridges.answer_question(number, choice.value):
            self.handle_message(QuestionUpdate(number, "lost"))

    def _find_number(self, text: str) -> int | None:
        """Return the number of the request for an answer, or None if the answer counts for none."""
        if text:
            if text.isdecimal() and int(text) in self._pending:
                return int(text)
            return None
        if self._shown is None:
            return None
        number, shown_since = self._shown
        if self._clock() - shown_since < MIN_READING_TIME:
            return None
        return number

    def _explain_missing(self, text: str) -> str:
        if not self._pending:
            return "No request is pending."
        if text:
            return f"No request has the number '{text[:20]}'. Pending: {', '.join(map(str, self._pending))}"
        return "The request has only just appeared: read it and answer again, or answer with its number."

    def _show_next(self) -> None:
        first = next(iter(self._pending.values()), None)
        if first is not None and self._shown is not None and self._shown[0] == first.number:
            return
        report(*self._waiting_lines)
        self._waiting_lines.clear()
        if first is None:
            self._shown = None
            return
        self._shown = first.number, self._clock()
        report(f"[{first.number}] {first.bridge} requests approval for tool '{first.tool}'")
        for line in first.message.split("\n"):
            report(f"  | {line}")
        argument_lines = first.arguments.replace("\n", "\n  | ")
        report(f"  arguments: {argument_lines}", f"  {_list_choices(first)}")


def _list_choices(request: TerminalQuestion) -> str:
    return ", ".join(str(choice) for choice in CHOICES if choice.value in request.scopes)

"""`approvals`: answer the approval requests of running bridges in a terminal; list and revoke lasting approvals."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import cast

import anyio

from mcp_bridge._app.approval_policy import find_sockets_folder, open_approval_store
from mcp_bridge._cli import logs
from mcp_bridge._cli.choices import Choice, find_choice
from mcp_bridge._cli.exits import ExitCode
from mcp_bridge._cli.options import AnswerOptions, GrantListOptions, RevokeOptions
from mcp_bridge._cli.output import format_count, print_lines, report, show_table, write_json
from mcp_bridge._cli.target import find_file, is_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._policies.approvals.client import ApprovalClient, QuestionUpdate, TerminalQuestion
from mcp_bridge._policies.approvals.decisions import MIN_READING_TIME, Scope
from mcp_bridge._policies.approvals.grants import Grant, GrantStore
from mcp_bridge._runtime.terminal_text import escape_line
from mcp_bridge._runtime.thread_pool import make_call_soon
from mcp_bridge._runtime.unix_sockets import has_unix_sockets
from mcp_bridge._settings import Settings, load

CHOICES = (
    Choice("once", "y", "once", ("yes",)),
    Choice("session", "s", "for the session", ("session",)),
    Choice("always", "a", "always"),
    Choice("deny", "n", "no", ("deny",)),
)
"""What the user may type. The value is the scope of the approval."""
_OUTCOMES = {
    "another": "answered elsewhere",
    "withdrawn": "no longer waiting for an answer",
    "late": "no longer waiting for an answer",
    "lost": "its bridge has stopped",
}


def answer_bridges(options: AnswerOptions) -> None:
    """Answer the requests of the bridges that use these settings, until Ctrl-C or end of input. Raises ConfigError."""
    settings = _load_settings(options.file)
    if not has_unix_sockets():
        problem = "approvals in a terminal need Unix sockets, which this system lacks"
        raise ConfigError(problem, hint="Use a client that supports elicitation")
    if not settings.approvals.local:
        raise ConfigError("approvals in a terminal are switched off", where="approvals.local", hint="Set it to true")
    report(f"Waiting for approval requests about the calls of {settings.path}. Press Ctrl-C to stop.")
    with suppress(KeyboardInterrupt):
        anyio.run(_answer_requests, find_sockets_folder(settings))


async def _answer_requests(folder: Path) -> None:
    terminal = ApprovalTerminal(folder)
    sender, lines = anyio.create_memory_object_stream[str](1000)
    run_soon = make_call_soon()

    def push(line: str) -> None:
        with suppress(anyio.WouldBlock):
            sender.send_nowait(line)

    callbacks = (lambda line: run_soon(partial(push, line)), lambda: run_soon(sender.close))
    threading.Thread(target=_read_lines, args=callbacks, daemon=True).start()
    with sender, lines:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(terminal.visits.run)
                async for line in lines:
                    await terminal.read(line)
                tasks.cancel_scope.cancel()
        except* PermissionError as group:
            problem = str(group.exceptions[0])
        else:
            return
    raise ConfigError(problem, where="approvals.sockets")


def _read_lines(receive: Callable[[str], object], close: Callable[[], object]) -> None:
    # Reads the descriptor itself: a daemon thread inside sys.stdin would hold its lock when the interpreter exits.
    rest = b""
    with suppress(OSError, RuntimeError):
        try:
            while data := os.read(0, 4096):
                *lines, rest = (rest + data).split(b"\n")
                rest = rest[-4096:]
                for line in lines:
                    receive(line.decode(errors="replace"))
        finally:  # even if the terminal is gone: without input there is no point in receiving requests
            close()


class ApprovalTerminal:
    """Shows the pending requests one after the other; what the user types answers the one on the screen.

    An answer may name its request, as in `y 3`. Without a number it counts only after the request has been on the
    screen for `MIN_READING_TIME` seconds, because it may have been typed for the previous request.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.visits = ApprovalClient(folder, self.handle_message, lambda name: report(f"connected to {name}"))
        self._clock = clock
        self._pending: dict[int, TerminalQuestion] = {}
        self._shown: tuple[int, float] | None = None

    def handle_message(self, event: TerminalQuestion | QuestionUpdate) -> None:
        if isinstance(event, TerminalQuestion):
            self._pending[event.number] = event
        elif event.how == "unfit":
            report(f"[{event.number}] this answer is not possible here")
            return
        elif self._pending.pop(event.number, None) is not None:
            outcome = "denied" if event.choice == "deny" else f"approved: {event.choice}"
            report(f"[{event.number}] {_OUTCOMES.get(event.how) or outcome}")
        self._show_next()

    async def read(self, line: str) -> None:
        word, _, given_number = line.strip().lower().partition(" ")
        choice = find_choice(CHOICES, word)
        number = self._find_number(given_number)
        if not word:
            self._show_next(again=True)
        elif choice is None:
            report("Type y, s, a or n, optionally with the number of a request: y 3")
        elif number is None:
            report(self._explain_missing(given_number))
        elif (scope := cast(Scope, choice.value)) not in (*self._pending[number].scopes, "deny"):
            report(f"[{number}] this answer is not possible here; {_list_choices(self._pending[number])}")
        elif not await self.visits.answer_question(number, scope):
            self.handle_message(QuestionUpdate(number, "lost"))

    def _find_number(self, given: str) -> int | None:
        if given:
            return int(given) if given.isdecimal() and int(given) in self._pending else None
        if self._shown is None or self._clock() - self._shown[1] < MIN_READING_TIME:
            return None
        return self._shown[0]

    def _explain_missing(self, given: str) -> str:
        if not self._pending:
            return "No request is pending."
        if given:
            return f"No request has the number '{given[:20]}'. Pending: {', '.join(map(str, self._pending))}"
        return "The request has only just appeared: read it and answer again, or answer with its number."

    def _show_next(self, *, again: bool = False) -> None:
        first = next(iter(self._pending.values()), None)
        if first is None:
            self._shown = None
            return
        if self._shown is not None and self._shown[0] == first.number and not again:
            return
        self._shown = first.number, self._clock()
        report(f"[{first.number}] {first.bridge} requests approval for tool '{first.tool}'")
        report(*(f"  | {line}" for line in first.prompt.split("\n")))
        report(*f"  arguments: {first.arguments}".replace("\n", "\n  | ").split("\n"), f"  {_list_choices(first)}")


def _list_choices(request: TerminalQuestion) -> str:
    return ", ".join(str(choice) for choice in CHOICES if choice.value in (*request.scopes, "deny"))


def show_grants(options: GrantListOptions) -> None:
    """Print the lasting approvals as a table, as ids or as JSON."""
    grants = anyio.run(_list_grants, _open_store(_load_settings(options.file)))
    if options.as_json:
        write_json([asdict(grant) for grant in grants])
        return
    if options.quiet:
        print_lines(*(escape_line(grant.id) for grant in grants))
        return
    columns = ("id", "tool", "arguments", "allowed", "for", "since", "until")
    show_table(columns, [_to_cells(grant) for grant in grants], empty="no lasting approvals")


def revoke_grants(options: RevokeOptions) -> None:
    """Revoke one approval, or all; exit with 3 if there is none. Raises ConfigError."""
    id, file, revoke_all = options.id, options.file, options.revoke_all
    if revoke_all and id is not None and file is None:
        file, id = Path(id), None
    if id is not None and file is None and is_settings(Path(id)):
        raise ConfigError(f"'{id}' is a file, not an id", where="revoke", hint="Put the id before it, or use --all")
    if revoke_all == (id is not None):
        raise ConfigError("no approval was selected", where="revoke", hint="Pass the id of an approval, or use --all")
    store = _open_store(_load_settings(file))
    grants = [grant for grant in anyio.run(_list_grants, store) if revoke_all or grant.id.startswith(id or "")]
    if len(grants) > 1 and not revoke_all:
        raise ConfigError(f"{len(grants)} ids start with '{id}'", where="revoke", hint="Pass more of the id")
    anyio.run(_revoke, store, grants)
    report(f"{format_count(len(grants), 'approval')} revoked")
    if not grants and not revoke_all:
        raise SystemExit(ExitCode.NOT_FOUND)


def _load_settings(file: Path | None) -> Settings:
    path = find_file(file)
    if not is_settings(path):
        raise ConfigError("approvals need a settings file", path=str(path), hint="Pass the settings that are served")
    settings = load(path, os.environ)
    logs.configure_logging("warning")
    logs.hide_secrets(settings.secrets)
    return settings


def _open_store(settings: Settings) -> GrantStore:
    """Open the store of approvals. Raises ConfigError if only the bridge itself can see it."""
    if settings.approvals.store == "memory":
        hint = "They are lost when the bridge stops. To list them, use approvals.store: sqlite"
        raise ConfigError("approvals are stored in the memory of the bridge", where="approvals.store", hint=hint)
    store = open_approval_store(settings)
    if store is None:
        raise ConfigError("these settings remember no approvals", where="approvals.remember", hint="Set it to true")
    return store


async def _list_grants(store: GrantStore) -> list[Grant]:
    try:
        return await store.list_grants()
    except TypeError as error:
        hint = "Implement `async keys(prefix)`"
        raise ConfigError(f"this store cannot list its keys: {error}", where="approvals.store", hint=hint) from error
    except OSError as error:
        raise ConfigError(str(error), where="approvals.path") from error


async def _revoke(store: GrantStore, grants: list[Grant]) -> None:
    try:
        for grant in grants:
            await store.revoke_grant(grant.id)
    except OSError as error:
        raise ConfigError(str(error), where="approvals.path") from error


def _to_cells(grant: Grant) -> tuple[str, ...]:
    scope, user = f"{grant.scope} {grant.session}".strip(), grant.principal or "everyone"
    times = _format_time(grant.at), _format_time(grant.until)
    return grant.id[:12], grant.tool, grant.arguments[:12], scope, user, *times


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")

"""`context-persistent`: keeps the history in a file, so that a new process can continue it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge._integrations.amplifier.contexts.simple import (
    ContextConfig,
    SimpleContext,
    check_message,
    mount_context,
    read_config,
)
from mcp_bridge._integrations.amplifier.results import encode_json
from mcp_bridge._runtime.file_names import make_file_name
from mcp_bridge._runtime.file_replacement import replace_file
from mcp_bridge._runtime.user_folders import get_data_folder

logger = logging.getLogger("mcp_bridge.amplifier")

__amplifier_module_type__ = "context"

SESSION = "{session_id}"
"""The placeholder in a path for the id of the session."""


class PersistentConfig(ContextConfig):
    """The configuration of `context-persistent`.

    Attributes:
        path: The file, with one message in JSON on each line. The placeholder `{session_id}` is replaced by the id of
            the session. A path without it is shared by all sessions except those of subagents: the names of their
            files end with their ids. By default, each session has a file in the user's data folder.
    """

    path: str | None = None


class PersistentContext(SimpleContext):
    """A complete history in a file.

    If the file had a history, the context ignores `set_messages`, because the transcripts of callers usually lack the
    system messages (CONTEXT_CONTRACT, "File-Based Context Managers"). `find_path` returns the file of another session;
    None if sessions share one file.
    """

    def __init__(
        self,
        path: Path,
        config: ContextConfig | None = None,
        hooks: Any = None,
        find_path: Callable[[str], Path] | None = None,
    ) -> None:
        super().__init__(config, hooks)
        self._path = path
        self._find_path = find_path
        self._lock = anyio.Lock()
        self._has_loaded = False

    async def load(self) -> None:
        """Read the file, if there is one. An incomplete last line is removed.

        Raises ValueError if the file is not a history, OSError if it cannot be read.
        """
        lines = await anyio.to_thread.run_sync(_read_lines, self._path)
        for number, line in enumerate(lines, 1):
            try:
                self._append(json.loads(line))
            except ValueError as error:
                raise ValueError(f"{self._path}, line {number}: not a message ({error})") from error
        self._has_loaded = bool(lines)

    async def has_history(self, session_id: str) -> bool:
        """Return whether a session has a file. If sessions share one file, none has its own."""
        return self._find_path is not None and await anyio.to_thread.run_sync(self._find_path(session_id).is_file)

    async def add_message(self, message: dict[str, Any]) -> None:
        """Add a message, and write it before returning. Raises ValueError, or OSError if the file is not writable."""
        check_message(message)
        async with self._lock:
            copy = dict(message)
            line = _format_message(copy)
            await _write_to_end(partial(_append_line, self._path, line), partial(self._append, copy))

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Replace the history, unless it was loaded from the file. Raises as `add_message` does."""
        if self._has_loaded:
            logger.info("the history in %s is complete, so the caller's is ignored", self._path)
            return
        for message in messages:
            check_message(message)
        history = [dict(message) for message in messages]
        async with self._lock:
            text = b"".join(_format_message(message) for message in history)
            await _write_to_end(partial(replace_file, self._path, text), partial(self._replace, history))

    async def clear(self) -> None:
        """Clear the history, and remove the file. Raises OSError if that is not possible."""
        async with self._lock:
            await _write_to_end(partial(self._path.unlink, missing_ok=True), self._forget)

    def _forget(self) -> None:
        super()._forget()
        self._has_loaded = False


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the context with the history of its file. Raises ValueError for an invalid configuration or file."""
    options = PersistentConfig(**read_config(config, PersistentConfig))
    is_shared = options.path is not None and SESSION not in options.path
    pattern = options.path
    if is_shared and coordinator.parent_id:
        pattern = f"{options.path}.{SESSION}"
    path = _find_path(pattern, str(coordinator.session_id))
    find_path = None if is_shared else partial(_find_path, options.path)
    context = PersistentContext(path, options, coordinator.hooks, find_path)
    await context.load()
    await mount_context(coordinator, context, "context-persistent")
    return context


async def _write_to_end(write: Callable[[], None], commit: Callable[[], None]) -> None:
    """Run `write` in a thread and then `commit`, also if the caller is cancelled meanwhile. Raises their errors.

    Otherwise, the file and the memory could differ. A shielded scope alone does not delay
    `asyncio.Task.cancel`, so another task runs both, and a task group waits for it.
    """
    errors: list[Exception] = []

    async def write_and_commit() -> None:
        with anyio.CancelScope(shield=True):
            try:
                await anyio.to_thread.run_sync(write)
                commit()
            except Exception as error:
                errors.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write_and_commit)
    # The task group would raise an ExceptionGroup.
    if errors:
        raise errors[0]


def _find_path(pattern: str | None, session_id: str) -> Path:
    name = make_file_name(session_id)
    if pattern is not None:
        return Path(pattern.replace(SESSION, name)).expanduser()
    return get_data_folder() / "contexts" / f"{name}.jsonl"


def _format_message(message: dict[str, Any]) -> bytes:
    return encode_json(message) + b"\n"


def _read_lines(path: Path) -> list[bytes]:
    """Return the complete lines of a file. Remove an incomplete last line: the next one would be appended to it."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    complete = text[: text.rfind(b"\n") + 1]
    if len(complete) < len(text):
        logger.warning("%s: the last message was not written completely and is removed", path)
        os.truncate(path, len(complete))
    return complete.splitlines()


def _append_line(path: Path, line: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(file).st_size
        # If the disk is full, only a part of the line is written.
        if os.write(file, line) < len(line):
            os.truncate(file, size)
            raise OSError(f"{path}: the message could not be written completely")
    finally:
        os.close(file)

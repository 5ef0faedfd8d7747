"""The event loops of Windows, on the loop of Linux."""

from __future__ import annotations

import asyncio
import asyncio.unix_events
import signal
import sys
import threading
from types import ModuleType
from typing import Any

from tests.kits.platforms.windows_names import MISSING_IN_ASYNCIO
from tests.kits.platforms.windows_processes import to_exit_code

_RealLoop = asyncio.SelectorEventLoop


def install() -> None:
    """Replace the loops and the policies of `asyncio`."""
    for name in MISSING_IN_ASYNCIO:
        if name in vars(asyncio):
            delattr(asyncio, name)
    changes: dict[str, Any] = {
        "IocpProactor": object,
        "ProactorEventLoop": ProactorEventLoop,
        "SelectorEventLoop": SelectorEventLoop,
    }
    if hasattr(asyncio, "EventLoop"):
        changes["EventLoop"] = ProactorEventLoop
    for name, value in changes.items():
        setattr(asyncio, name, value)
    # The default policy of Linux makes the loops of `asyncio.run`.
    for name in ("_UnixDefaultEventLoopPolicy", "_DefaultEventLoopPolicy"):
        policy = getattr(asyncio.unix_events, name, None)
        if policy is not None:
            policy._loop_factory = ProactorEventLoop
            selector = type("WindowsSelectorEventLoopPolicy", (policy,), {"_loop_factory": SelectorEventLoop})
            asyncio.WindowsProactorEventLoopPolicy = policy  # type: ignore[attr-defined]
            asyncio.WindowsSelectorEventLoopPolicy = selector  # type: ignore[attr-defined]
            # Since Python 3.14, `asyncio` imports the policy when it makes the first loop.
            changes["_DefaultEventLoopPolicy"] = policy
    events = ModuleType("asyncio.windows_events")
    vars(events).update(changes)
    sys.modules["asyncio.windows_events"] = asyncio.windows_events = events


class _WindowsLoop(_RealLoop):  # type: ignore[misc, valid-type]
    """What both loops lack."""

    def add_signal_handler(self, *args: Any) -> None:
        raise NotImplementedError

    def remove_signal_handler(self, *args: Any) -> bool:
        raise NotImplementedError

    async def create_unix_connection(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def create_unix_server(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


class ProactorEventLoop(_WindowsLoop):
    """The loop that starts processes and watches no descriptors. A signal wakes it, as since Python 3.8."""

    def __init__(self, proactor: object = None) -> None:
        super().__init__()
        if threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(self._csock.fileno())

    def close(self) -> None:
        if not self.is_closed() and threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(-1)
        super().close()

    def add_reader(self, *args: Any) -> None:
        raise NotImplementedError

    def remove_reader(self, *args: Any) -> bool:
        raise NotImplementedError

    def add_writer(self, *args: Any) -> None:
        raise NotImplementedError

    def remove_writer(self, *args: Any) -> bool:
        raise NotImplementedError

    def _sock_write_done(self, fd: int, *_: Any, **options: Any) -> None:
        # The inherited method calls `remove_writer` after a connection.
        self._remove_writer(fd)

    async def connect_read_pipe(self, protocol_factory: Any, pipe: Any) -> Any:
        """Connect the output of a child. Other pipes are not made for overlapped I/O."""
        _check_is_of_child(protocol_factory)
        return await super().connect_read_pipe(protocol_factory, pipe)

    async def connect_write_pipe(self, protocol_factory: Any, pipe: Any) -> Any:
        """Connect the input of a child."""
        _check_is_of_child(protocol_factory)
        return await super().connect_write_pipe(protocol_factory, pipe)

    def _child_watcher_callback(self, pid: int, returncode: int, transport: Any) -> None:
        super()._child_watcher_callback(pid, to_exit_code(returncode), transport)


class SelectorEventLoop(_WindowsLoop):
    """The loop that watches sockets and starts no processes."""

    async def subprocess_exec(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def subprocess_shell(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


def _check_is_of_child(protocol_factory: Any) -> None:
    if getattr(protocol_factory, "__module__", "") != "asyncio.base_subprocess":
        error = OSError(22, "[WinError 6] The handle is invalid")
        error.winerror = 6  # type: ignore[attr-defined]
        raise error

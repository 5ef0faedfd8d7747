"""Makes this interpreter look like Windows."""

from __future__ import annotations

import codecs
import enum
import locale
import ntpath
import os
import os.path
import select
import selectors
import signal
import socket
import stat
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from tests.kits.platforms import windows_files, windows_loops, windows_processes
from tests.kits.platforms.environment import RECORDS_FOLDER
from tests.kits.platforms.hidden_folders import hide_proc
from tests.kits.platforms.interpreter import SimulatedInterpreter
from tests.kits.platforms.windows_kernel import patch_kernel32
from tests.kits.platforms.windows_msvcrt import make_msvcrt
from tests.kits.platforms.windows_names import (
    MISSING_IN_OS,
    MISSING_IN_SELECT,
    MISSING_IN_SOCKET,
    MISSING_MODULES,
    NAMES_IN_SIGNAL,
    SIGNALS,
)


def install() -> None:
    """Change the interpreter. Modules that were imported before see no difference in their names."""
    _use_windows_variables()
    windows_files.install()
    hide_proc()
    interpreter = SimulatedInterpreter(
        "win32", ("Windows", "10", "10.0.19045", "AMD64"), MISSING_MODULES, _PATCHES
    )  # fmt: skip
    interpreter.replace(
        os,
        MISSING_IN_OS,
        O_BINARY=windows_files.O_BINARY,
        O_NOINHERIT=windows_files.O_NOINHERIT,
        O_RANDOM=windows_files.O_RANDOM,
        O_SEQUENTIAL=windows_files.O_SEQUENTIAL,
        O_SHORT_LIVED=windows_files.O_SHORT_LIVED,
        O_TEMPORARY=windows_files.O_TEMPORARY,
        O_TEXT=windows_files.O_TEXT,
        close=windows_files.close,
        fdopen=windows_files.open_file_object,
        kill=windows_processes.kill,
        linesep="\r\n",
        name="nt",
        open=windows_files.open_descriptor,
        read=windows_files.read,
        startfile=_open_with_program,
        supports_bytes_environ=False,
        write=windows_files.write,
    )
    interpreter.replace(signal, set(vars(signal)) - NAMES_IN_SIGNAL, **_make_signal_names())
    interpreter.replace(
        socket, MISSING_IN_SOCKET, SO_EXCLUSIVEADDRUSE=-5, socket=WindowsSocket, socketpair=_make_socket_pair
    )
    interpreter.replace(select, MISSING_IN_SELECT, select=_select_sockets)
    interpreter.replace(selectors, {"EpollSelector", "PollSelector", "KqueueSelector"}, DefaultSelector=SocketSelector)
    interpreter.add("msvcrt", make_msvcrt())
    windows_processes.install()
    windows_loops.install()
    _use_windows_text()
    sys.getwindowsversion = lambda: SimpleNamespace(major=10, minor=0, build=19045, platform=2)  # type: ignore
    sys.winver = "{}.{}".format(*sys.version_info)  # type: ignore[attr-defined]
    signal.signal(SIGNALS["SIGBREAK"], lambda *_: os._exit(windows_processes.KILLED))
    interpreter.activate()


def _use_windows_variables() -> None:
    """Ignore the case of names in `os.environ`, and find folders by the variables of Windows."""
    environ: Any = os.environ
    # The launcher sets it, so that this interpreter does not choose the mode for UTF-8.
    environ.pop("LC_ALL", None)
    variables = dict(environ)
    encode = environ.encodekey
    environ.clear()
    environ.encodekey = lambda name: encode(name).upper()
    environ.update(variables)
    if "SYSTEMROOT" not in environ:
        # Windows cannot load its random numbers without this variable.
        raise SystemExit("Fatal Python error: _Py_HashRandomization_Init: failed to get random numbers")

    def expand_user(path: Any) -> Any:
        text = os.fspath(path)
        home = environ.get("USERPROFILE")
        if not isinstance(text, str) or home is None or not (text == "~" or text.startswith("~/")):
            return text
        return home + text[1:]

    os.path.expanduser = expand_user
    os.path.expandvars = ntpath.expandvars


def _use_windows_text() -> None:
    """Use the encoding of the system for pipes, with line ends of Windows. Consoles have UTF-8."""
    if sys.flags.utf8_mode:
        return
    locale.getpreferredencoding = lambda do_setlocale=True: windows_files.ENCODING
    locale.getencoding = lambda: windows_files.ENCODING
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is not None and not stream.isatty() and hasattr(stream, "reconfigure"):
            encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
            options: dict[str, Any] = {"encoding": codecs.lookup(encoding or windows_files.ENCODING).name}
            options["errors"] = errors or ("backslashreplace" if stream is sys.stderr else "strict")
            if stream is not sys.stdin:
                options["newline"] = "\r\n"
            stream.reconfigure(**options)


def _make_signal_names() -> dict[str, object]:
    """Return the signals of Windows, and the functions that accept only these."""
    signals: Any = enum.IntEnum(
        "Signals", {name: number for name, number in SIGNALS.items() if name.startswith("SIG")}, module="signal"
    )
    real_signal, real_getsignal = signal.signal, signal.getsignal

    def set_handler(number: int, handler: Any) -> Any:
        if number not in set(signals):
            raise ValueError("signal number out of range")
        if number == SIGNALS["SIGBREAK"] and handler == signal.SIG_DFL:
            handler = _exit_by_break
        return real_signal(number, handler)

    names: dict[str, object] = {name: signals(number) for name, number in SIGNALS.items() if name.startswith("SIG")}
    names.update(
        CTRL_C_EVENT=SIGNALS["CTRL_C_EVENT"],
        CTRL_BREAK_EVENT=SIGNALS["CTRL_BREAK_EVENT"],
        NSIG=23,
        Signals=signals,
        getsignal=real_getsignal,
        signal=set_handler,
        valid_signals=lambda: set(signals),
    )
    return names


def _exit_by_break(*_: object) -> None:
    os._exit(windows_processes.KILLED)


class WindowsSocket(socket.socket):
    """A socket without the methods that Windows lacks."""

    sendmsg = recvmsg = recvmsg_into = sendmsg_afalg = property()  # type: ignore[assignment]

    def setsockopt(self, level: int, name: int, *value: Any) -> None:
        """Set an option. The one for exclusive addresses has no counterpart, because Linux has no other addresses."""
        if name != -5:
            super().setsockopt(level, name, *value)


def _make_socket_pair(*_: Any) -> tuple[socket.socket, socket.socket]:
    """Connect two TCP sockets, as Python does on Windows."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        near = WindowsSocket()
        near.connect(listener.getsockname())
        far, _ = listener.accept()
    return near, WindowsSocket(fileno=far.detach())


def _check_is_socket(item: Any) -> None:
    descriptor = item if isinstance(item, int) else item.fileno()
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        message = "An operation was attempted on something that is not a socket"
        raise windows_files.make_error(OSError, 10038, 10038, message)


_real_select = select.select


def _select_sockets(readers: Any, writers: Any, others: Any, timeout: float | None = None) -> Any:
    """Wait for sockets. Windows cannot wait for other descriptors."""
    for items in (readers, writers, others):
        for item in items:
            _check_is_socket(item)
    return _real_select(readers, writers, others, timeout)


class SocketSelector(selectors.SelectSelector):
    """Waits for sockets."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        _check_is_socket(fileobj)
        return super().register(fileobj, events, data)


def _open_with_program(path: Any, *_: Any) -> None:
    """Record what the program of the user would open, such as the page in a browser."""
    with Path(RECORDS_FOLDER, "opened").open("a", encoding="utf-8") as file:
        file.write(f"{os.fspath(path)}\n")


def _patch_webbrowser(module: ModuleType) -> None:
    class WindowsDefault(module.BaseBrowser):  # type: ignore[name-defined, misc]
        def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
            _open_with_program(url)
            return True

    module.WindowsDefault = WindowsDefault  # type: ignore[attr-defined]


def _patch_shutil(module: ModuleType) -> None:
    """Add the function of Windows that `shutil.which` calls since Python 3.12."""
    module._winapi = SimpleNamespace(NeedCurrentDirectoryForExePath=lambda name: True)  # type: ignore[attr-defined]


def _patch_ssl(module: ModuleType) -> None:
    """The store of certificates is empty."""
    module.enum_certificates = lambda store: []  # type: ignore[attr-defined]
    module.enum_crls = lambda store: []  # type: ignore[attr-defined]


def _patch_psutil(module: ModuleType) -> None:
    """Let psutil read a folder that is hidden, and end processes as Windows does."""
    module.PROCFS_PATH = "/dev/../proc"  # type: ignore[attr-defined]
    module.Process.terminate = module.Process.kill  # type: ignore[attr-defined]


def _patch_platformdirs(module: ModuleType) -> None:
    """Find folders by variables, because there is no shell to ask."""
    module._RESOLVE_WIN_FOLDER = module.get_win_folder_from_env_vars  # type: ignore[attr-defined]


_PATCHES = {
    "mcp_bridge._runtime.platform.kernel32": patch_kernel32,
    "platformdirs.windows": _patch_platformdirs,
    "psutil": _patch_psutil,
    "shutil": _patch_shutil,
    "ssl": _patch_ssl,
    "webbrowser": _patch_webbrowser,
}

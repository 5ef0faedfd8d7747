"""Simulated computers for tests: a home folder, the variables of a desktop, and processes on it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from tests.kits.constants import TIMEOUT
from tests.kits.forked_commands import start_process_to_fork
from tests.kits.platforms.environment import MARKER, RECORDS

SystemName = Literal["win32", "darwin"]
SYSTEMS: tuple[SystemName, ...] = ("win32", "darwin")
USER = "Jörg Müller"
"""The name of the user, whose folder has a space and letters beyond ASCII."""
_START = Path(__file__).with_name("start.py")
_LAUNCHER = """#!/bin/sh
options=
while :; do
  case "$1" in
    -[BEIOPSbdiqsuvx]*) options="$options $1"; shift ;;
    -[WX]) options="$options $1 $2"; shift 2 ;;
    *) break ;;
  esac
done
export {marker}={system} {locale} {records_name}='{records}' SIMULATED_LAUNCHER='{launcher}'
# The interpreter of Windows reads and removes this variable.
export SIMULATED_ENVIRONMENT="$__PYVENV_LAUNCHER__"
unset __PYVENV_LAUNCHER__
exec '{python}' $options '{start}' "$@"
"""
"""The program that simulated processes see as `sys.executable`."""


class SimulatedComputer:
    """A computer with another system. `folder` is the folder of its user for documents."""

    def __init__(self, system: SystemName, root: Path) -> None:
        self.system = system
        self.root = root
        self.home = root / "Users" / USER
        self.folder = self.home / "Documents"
        self.records = root / "records"
        self.programs = root / "bin"
        for folder in (self.folder, self.records, self.programs):
            folder.mkdir(parents=True)
        self.python = self.add_python("python.exe" if system == "win32" else "python3")
        self.environment = self._make_windows_variables() if system == "win32" else self._make_macos_variables()
        self._forks: tuple[subprocess.Popen[str], list[str]] | None = None
        # Python does not search all folders for its own files again, and measures coverage.
        for name, value in os.environ.items():
            if name.startswith(("COVERAGE_", "COV_")):
                self.environment[name] = value

    def add_python(self, name: str) -> Path:
        """Add an interpreter to the folder of programs."""
        path = self.programs / name
        text = _LAUNCHER.format(
            marker=MARKER,
            system=self.system,
            locale="LC_ALL=C.UTF-8" if self.system == "win32" else "",
            records_name=RECORDS,
            records=self.records,
            launcher=path,
            python=sys.executable,
            start=_START,
        )
        return self.add_script(name, text)

    def add_environment(self, name: str) -> Path:
        """Add the launcher of a virtual environment of Windows. It starts the interpreter as another process."""
        path = self.programs / name
        return self.add_script(
            name, f"#!/bin/sh\nexport __PYVENV_LAUNCHER__='{path}'\n'{self.python}' \"$@\"\nexit $?\n"
        )

    def add_script(self, name: str, text: str) -> Path:
        """Add a script of `sh` to the folder of programs. On Windows, `name` has to end with `.exe` or `.cmd`."""
        path = self.programs / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return path

    def add_program(self, name: str) -> None:
        """Add a program of this machine to the folder of programs."""
        program = shutil.which(name)
        assert program is not None
        (self.programs / f"{name}.exe" if self.system == "win32" else self.programs / name).symlink_to(program)

    def _make_windows_variables(self) -> dict[str, str]:
        roaming, local = self.home / "AppData/Roaming", self.home / "AppData/Local"
        for folder in (roaming, local / "Temp", self.root / "Windows"):
            folder.mkdir(parents=True)
        return {
            "ALLUSERSPROFILE": str(self.root / "ProgramData"), "APPDATA": str(roaming), "COMPUTERNAME": "SIMULATED",
            "ComSpec": str(self.root / "Windows/cmd.exe"), "LOCALAPPDATA": str(local), "OS": "Windows_NT",
            # `shutil.which` separates these by the character of this system, and file names have lower case.
            "PATHEXT": ".com:.exe:.bat:.cmd", "Path": str(self.programs),
            "ProgramData": str(self.root / "ProgramData"), "ProgramFiles": str(self.root / "Program Files"),
            "SystemDrive": "C:", "SystemRoot": str(self.root / "Windows"), "TEMP": str(local / "Temp"),
            "TMP": str(local / "Temp"), "USERNAME": USER, "USERPROFILE": str(self.home),
        }  # fmt: skip

    def _make_macos_variables(self) -> dict[str, str]:
        temporary = self.root / "T"
        temporary.mkdir()
        # The system itself starts programs of the desktop with a PATH without folders of the user.
        return {
            "HOME": str(self.home), "LOGNAME": USER, "PATH": f"{self.programs}:/usr/bin:/bin:/usr/sbin:/sbin",
            "SHELL": "/bin/zsh", "TMPDIR": f"{temporary}/", "USER": USER, "__CF_USER_TEXT_ENCODING": "0x1F5:0x0:0x3",
        }  # fmt: skip

    def run_python(
        self, *arguments: str | Path, stdin: str = "", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the interpreter in the folder of documents, and return its exit code and output."""
        with self.start_python(*arguments, env=env) as process:
            out, err = process.communicate(stdin, TIMEOUT)
        return subprocess.CompletedProcess(process.args, self.get_exit_code(process), out, err)

    def run(
        self, *arguments: str | Path, stdin: str = "", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `mcp-bridge` with these arguments, in a fork of a simulated process with the imports already done."""
        if self._forks is None:
            code = "from tests.kits.forked_commands import main; main()"
            self._forks = start_process_to_fork([str(self.python), "-c", code], self.environment)
        result = subprocess.run(
            [*self._forks[1], "mcp_bridge", *map(str, arguments)],
            cwd=self.folder,
            env={**self.environment, **(env or {})},
            input=stdin.encode(),
            capture_output=True,
            timeout=TIMEOUT,
        )
        out, err = (_decode(data).replace("\r\n", "\n") for data in (result.stdout, result.stderr))
        return subprocess.CompletedProcess(result.args, result.returncode, out, err)

    def close(self) -> None:
        """End the process to fork."""
        if self._forks is not None:
            self._forks[0].communicate()

    @contextlib.contextmanager
    def start_python(
        self, *arguments: str | Path, env: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """Start the interpreter, and kill it after the block."""
        process = subprocess.Popen(
            [self.python, *arguments],
            cwd=self.folder,
            env={**self.environment, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # The protocol is UTF-8. Other output is cp1252 on Windows.
            encoding="utf-8",
            errors="surrogateescape",
            # Ctrl-C of a terminal reaches the whole group.
            process_group=0,
        )
        with process:
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    @contextlib.contextmanager
    def start(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
        """Start `mcp-bridge` with these arguments, and kill it after the block."""
        with self.start_python("-m", "mcp_bridge", *arguments, env=env) as process:
            yield process

    def interrupt(self, process: subprocess.Popen[Any]) -> None:
        """Press Ctrl-C in the console of a process: all processes of its group get the signal."""
        os.killpg(process.pid, signal.SIGINT)

    def terminate(self, process: subprocess.Popen[Any]) -> None:
        """Ask a process to end. On Windows it ends without notice."""
        process.send_signal(signal.SIGKILL if self.system == "win32" else signal.SIGTERM)

    def get_exit_code(self, process: subprocess.Popen[Any]) -> int:
        """Return the exit code that a program on this system sees."""
        code: int = process.wait(TIMEOUT)
        if self.system == "darwin" or code >= 0:
            return code
        return 0xC000013A if code == -signal.SIGINT else 1


def _decode(data: bytes) -> str:
    """Decode output, which is in UTF-8 or in the encoding of Windows."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


@contextlib.contextmanager
def make_computer(system: SystemName) -> Iterator[SimulatedComputer]:
    """Make a computer in a temporary folder. Its path is short, because sockets of macOS have a limit."""
    folder = tempfile.mkdtemp(prefix=system[:1])
    computer = SimulatedComputer(system, Path(folder))
    try:
        yield computer
    finally:
        computer.close()
        shutil.rmtree(folder, ignore_errors=True)

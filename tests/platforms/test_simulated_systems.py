"""What Python code sees in the simulated systems (tests/kits/platforms)."""

from __future__ import annotations

import json
import signal
from textwrap import dedent
from typing import Any

from tests.kits.platforms.simulated_systems import USER, SimulatedComputer


def evaluate(computer: SimulatedComputer, code: str) -> Any:
    """Run code, and return the value of its variable `result`."""
    file = computer.folder / "probe.py"
    file.write_text(f"import json\n{dedent(code)}\nprint(json.dumps(result))", encoding="utf-8")
    process = computer.run_python(file)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def test_windows_lacks_names_modules_and_signals(windows: SimulatedComputer) -> None:
    result = evaluate(
        windows,
        """
        import importlib.util, os, platform, select, signal, socket, sys
        names = {
            os: "fork setsid killpg getuid chown fchmod O_NONBLOCK", select: "poll epoll",
            signal: "SIGHUP SIGKILL SIGCHLD SIGUSR1 alarm", socket: "AF_UNIX SO_PEERCRED",
        }
        present = [name for module, words in names.items() for name in words.split() if hasattr(module, name)]
        modules = [name for name in "fcntl resource pwd grp termios tty pty".split() if importlib.util.find_spec(name)]
        try:
            signal.signal(1, signal.SIG_IGN)
        except ValueError:
            modules.append("rejected")
        result = [sys.platform, os.name, platform.system(), present, modules, sorted(map(int, signal.Signals))]
        """,
    )
    assert result == ["win32", "nt", "Windows", [], ["rejected"], [2, 4, 6, 8, 11, 15, 21]]


def test_windows_rejects_changes_of_open_files(windows: SimulatedComputer) -> None:
    result = evaluate(
        windows,
        """
        import os, pathlib, shutil, subprocess, sys
        def attempt(function, *arguments):
            try:
                function(*arguments)
            except OSError as error:
                return [type(error).__name__, getattr(error, "winerror", None)]
        for name in "abc":
            pathlib.Path(name).write_text(name)
        result = [attempt(os.rename, "a", "b")]
        with open("a"):
            result += [attempt(os.replace, "b", "a"), attempt(os.unlink, "a"), attempt(pathlib.Path("a").unlink)]
        result += [attempt(os.replace, "b", "a"), pathlib.Path("a").read_text()]
        code = "file = open('c'); print(flush=True); input()"
        with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1) as process:
            process.stdout.readline()
            result.append(attempt(os.unlink, "c"))
            process.communicate(b"x")
        os.chmod("c", 0o400)
        result += [attempt(os.unlink, "c"), oct(os.stat("c").st_mode), oct(os.stat("a").st_mode), os.stat(".").st_uid]
        """,
    )
    denied = ["PermissionError", 32]
    assert result[:4] == [["FileExistsError", 183], denied, denied, denied]
    assert result[4:7] == [None, "b", denied]
    assert result[7:] == [["PermissionError", 5], "0o100444", "0o100666", 0]


def test_text_on_windows_has_its_encoding_and_line_ends(windows: SimulatedComputer) -> None:
    result = evaluate(
        windows,
        """
        import os, pathlib, subprocess, sys
        pathlib.Path("text").write_text("ü\\n")
        pathlib.Path("utf").write_text("ü", encoding="utf-8")
        descriptor = os.open("raw", os.O_CREAT | os.O_WRONLY)
        os.write(descriptor, b"a\\n")
        os.close(descriptor)
        code = "print('ü')"
        printed = subprocess.run([sys.executable, "-c", code], capture_output=True)
        bytes_of_files = [pathlib.Path(name).read_bytes() for name in ("text", "utf", "raw")]
        result = [data.decode("latin-1") for data in (*bytes_of_files, printed.stdout)]
        result += [pathlib.Path("utf").read_text(), sys.stdout.encoding, sys.stderr.errors]
        """,
    )
    assert result == ["ü\r\n", "Ã¼", "a\r\n", "ü\r\n", "Ã¼", "cp1252", "backslashreplace"]


def test_programs_on_windows_need_a_suffix_and_end_without_notice(windows: SimulatedComputer) -> None:
    windows.add_script("shim.cmd", "#!/bin/sh\necho $1")
    windows.add_script("script", "#!/bin/sh\n")
    result = evaluate(
        windows,
        """
        import os, shutil, signal, subprocess, sys
        def start(*command, **options):
            try:
                return subprocess.run(command, capture_output=True, text=True, **options).stdout
            except (OSError, ValueError) as error:
                return str(error)
        result = [start("shim", "a"), start(shutil.which("shim"), "a"), start("shim.cmd", "a")]
        result.append(start(os.path.join(os.environ["PATH"], "script")))
        result.append(start("python", "-c", "print(1)", preexec_fn=print))
        result.append(start("python", "-c", "print(1)", start_new_session=True))
        code = "import signal; signal.signal(15, print); print(flush=True); input()"
        process = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1)
        process.stdout.readline()
        process.terminate()
        result.append(process.wait())
        """,
    )
    assert result[0].startswith("[Errno 2] [WinError 2]")
    assert result[1:3] == ["a\n", "a\n"]
    assert "WinError 193" in result[3]
    assert result[4:] == ["preexec_fn is not supported on Windows platforms", "1\n", 1]


def test_the_event_loop_of_windows_watches_no_descriptors(windows: SimulatedComputer) -> None:
    result = evaluate(
        windows,
        """
        import asyncio, os, signal, sys
        async def attempt():
            loop = asyncio.get_running_loop()
            names = []
            for function, arguments in (
                (loop.add_reader, (0, print)), (loop.add_signal_handler, (signal.SIGINT, print)),
            ):
                try:
                    function(*arguments)
                except NotImplementedError:
                    names.append(function.__name__)
            try:
                await loop.connect_read_pipe(asyncio.Protocol, os.fdopen(os.pipe()[0], "rb"))
            except OSError as error:
                names.append(error.winerror)
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(2)", stdout=-1)
            output, _ = await process.communicate()
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=-1)
            process.kill()
            server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
            server.close()
            return [type(loop).__name__, *names, int(output), await process.wait()]
        result = asyncio.run(attempt())
        """,
    )
    assert result == ["ProactorEventLoop", "add_reader", "add_signal_handler", 6, 2, 1]


def test_variables_and_folders_on_windows_are_those_of_the_profile(windows: SimulatedComputer) -> None:
    result = evaluate(
        windows,
        """
        import os, pathlib, platformdirs
        result = [os.environ["path"], "HOME" in os.environ, pathlib.Path.home().name, os.path.expandvars("%userNAME%")]
        result += [platformdirs.user_config_path("app", False).parts[-3:], os.path.exists("/proc")]
        """,
    )
    assert result == [str(windows.programs), False, USER, USER, ["AppData", "Local", "app"], False]
    assert windows.run_python("-c", "", env={"SystemRoot": ""}).returncode == 0
    del windows.environment["SystemRoot"]
    assert "random numbers" in windows.run_python("-c", "").stderr


def test_locks_and_socket_pairs_on_windows_work_between_handles(windows: SimulatedComputer) -> None:
    result = evaluate(
        windows,
        """
        import msvcrt, select, socket
        with open("lock", "w") as first, open("lock", "w") as second:
            msvcrt.locking(first.fileno(), msvcrt.LK_NBLCK, 1)
            try:
                msvcrt.locking(second.fileno(), msvcrt.LK_NBLCK, 1)
            except PermissionError:
                result = ["locked"]
            msvcrt.locking(first.fileno(), msvcrt.LK_UNLCK, 1)
            msvcrt.locking(second.fileno(), msvcrt.LK_NBLCK, 1)
            try:
                select.select([first], [], [], 0)
            except OSError as error:
                result.append(error.winerror)
        near, far = socket.socketpair()
        near.send(b"x")
        result += [far.recv(1).decode(), near.family.name, hasattr(near, "sendmsg")]
        """,
    )
    assert result == ["locked", 10038, "x", "AF_INET", False]


def test_only_ctrl_c_and_ctrl_break_reach_a_program_on_windows(windows: SimulatedComputer) -> None:
    code = "import os, signal; signal.signal(21, lambda *_: os.write(1, b'b')); print(flush=True); input()"
    with windows.start_python("-c", code) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTTIN)
        assert process.stdout.read(1) == "b"
        windows.interrupt(process)
        assert windows.get_exit_code(process) == 0xC000013A


def test_macos_lacks_what_only_linux_has(macos: SimulatedComputer) -> None:
    result = evaluate(
        macos,
        """
        import ctypes, os, platform, resource, signal, socket, subprocess, sys
        def attempt(function, *arguments):
            try:
                return function(*arguments)
            except (OSError, ValueError, AttributeError) as error:
                return type(error).__name__
        names = {os: "sched_getaffinity pidfd_open", signal: "SIGRTMIN sigtimedwait", socket: "SO_PEERCRED"}
        present = [name for module, words in names.items() for name in words.split() if hasattr(module, name)]
        failures = [
            attempt(resource.setrlimit, resource.RLIMIT_AS, (1 << 40, 1 << 40)), attempt(open, "/proc/self/stat"),
            attempt(getattr, ctypes.CDLL(None), "prctl"), attempt(socket.socket(socket.AF_UNIX).bind, "/" + 104 * "a")
        ]
        child = subprocess.run([sys.executable, "-I", "-S", "-c", "import sys; print(sys.platform)"], stdout=-1)
        result = [sys.platform, os.name, platform.system(), present, failures, child.stdout.decode().strip()]
        """,
    )
    failures = ["ValueError", "FileNotFoundError", "AttributeError", "OSError"]
    assert result == ["darwin", "posix", "Darwin", [], failures, "darwin"]


def test_sockets_of_macos_report_the_user_of_the_other_end(macos: SimulatedComputer) -> None:
    result = evaluate(
        macos,
        """
        import os, socket, struct
        near, far = socket.socketpair()
        version, user = struct.unpack_from("2I", far.getsockopt(0, socket.LOCAL_PEERCRED, 76))
        result = [version, user == os.getuid()]
        """,
    )
    assert result == [0, True]

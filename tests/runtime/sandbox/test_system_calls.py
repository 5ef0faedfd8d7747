"""A program in a sandbox attacks the kernel by system calls that neither namespaces nor Landlock restrict."""

from __future__ import annotations

import json
import platform
import signal
from pathlib import Path

import pytest

from mcp_bridge._runtime.kernel_sandbox.seccomp import (
    FORBIDDEN,
    LANDLOCK_FORBIDDEN,
    LANDLOCK_MISSING,
    LANDLOCK_UNSUPPORTED,
    MISSING,
    is_supported,
)
from tests.kits.sandbox.sandbox_kit import PREAMBLE, attack, on_both_mechanisms, run_in_sandbox

pytestmark = [
    on_both_mechanisms,
    pytest.mark.skipif(not is_supported(), reason="NOT TESTED: the filter does not know this processor"),
]
on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="NOT TESTED: calls of another architecture")


def test_forbidden_system_calls_fail(mechanism: str, tmp_path: Path) -> None:
    tables = [(FORBIDDEN, "EPERM"), (MISSING, "ENOSYS")]
    if mechanism == "landlock":
        tables += [(LANDLOCK_FORBIDDEN, "EPERM"), (LANDLOCK_MISSING, "ENOSYS"), (LANDLOCK_UNSUPPORTED, "ENOTSUP")]
    column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
    script = "outcomes = {name: syscall(number, 0, 0, 0, 0, 0, 0) for name, number in json.loads(sys.argv[1]).items()}"
    for table, outcome in tables:
        numbers = {name: row[column] for name, row in table.items() if row[column] is not None}
        outcomes = attack(tmp_path, script, json.dumps(numbers), type=mechanism)
        assert outcomes == dict.fromkeys(numbers, outcome)


@pytest.mark.parametrize("network", [False, True])
def test_sockets_of_other_families_cannot_be_created(mechanism: str, network: bool, tmp_path: Path) -> None:
    script = """
for family in range(64):
    if family not in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
        outcomes[family] = attempt(socket.socket, family)
"""
    outcomes = attack(tmp_path, script, type=mechanism, network=network)
    assert set(outcomes.values()) == {"EPERM"}
    assert len(outcomes) == 60


def test_programs_in_a_sandbox_with_network_can_look_up_names_and_addresses(mechanism: str, tmp_path: Path) -> None:
    script = """
outcomes["name"] = str(socket.getaddrinfo("localhost", 80, socket.AF_INET)[0][4])
outcomes["interfaces"] = str(bool(socket.if_nameindex()))
outcomes["addresses"] = str(libc.getifaddrs(ctypes.byref(ctypes.c_void_p())))
outcomes["pair"] = attempt(lambda: [end.fileno() > 2 for end in socket.socketpair()])
"""
    outcomes = attack(tmp_path, script, type=mechanism, network=True)
    assert outcomes == {
        "name": "('127.0.0.1', 80)", "interfaces": "True", "addresses": "0", "pair": "success: [True, True]"
    }  # fmt: skip


def test_a_program_cannot_write_input_for_a_terminal(mechanism: str, tmp_path: Path) -> None:
    script = """
import termios
outcomes["input"] = attempt(fcntl.ioctl, 0, termios.TIOCSTI, b"x")
outcomes["size"] = attempt(fcntl.ioctl, 0, termios.TIOCGWINSZ, bytes(8))
"""
    # Standard input is no terminal, but the filter is asked first.
    assert attack(tmp_path, script, type=mechanism) == {"input": "EPERM", "size": "ENOTTY"}


@on_x86
def test_calls_of_the_x32_abi_are_missing(mechanism: str, tmp_path: Path) -> None:
    # The first one is socket(AF_VSOCK, SOCK_STREAM).
    script = "outcomes = {name: syscall(0x40000000 + int(name), 40, 1, 0) for name in ('41', '425', '520')}"
    outcomes = attack(tmp_path, script, type=mechanism, network=True)
    assert outcomes == dict.fromkeys(("41", "425", "520"), "ENOSYS")


@on_x86
def test_calls_of_32_bit_programs_end_the_process(mechanism: str, tmp_path: Path) -> None:
    # mov eax, 20 (getpid of i386); int 0x80; ret
    script = f"""{PREAMBLE}
import mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
    # bubblewrap reports a signal as a shell does.
    codes = {"landlock": -signal.SIGSYS, "bubblewrap": 128 + signal.SIGSYS}
    assert run_in_sandbox(tmp_path, script, type=mechanism).returncode == codes[mechanism]

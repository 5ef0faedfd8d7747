"""A program in a sandbox with Landlock attacks the network and other processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from mcp_bridge._runtime import sandbox
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.sandbox import SandboxOptions
from tests.kits.constants import TIMEOUT
from tests.kits.sandbox.sandbox_kit import (
    MEMORY,
    attack,
    needs_landlock,
    run_in_sandbox,
)
from tests.kits.waiting import wait_until

pytestmark = needs_landlock


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "write").mkdir()
    return tmp_path


@pytest.mark.parametrize("network", [False, True])
def test_sockets_reach_only_what_the_settings_allow(network: bool, folder: Path) -> None:
    write = folder / "write"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as pathname,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
    ):
        udp.bind(("127.0.0.1", 0))
        pathname.bind(str(write / "sock"))
        pathname.listen()
        abstract.bind(f"\0mcp-bridge-{os.getpid()}")
        abstract.listen()
        datagrams.bind(str(write / "datagrams"))
        script = """
tcp, udp, folder, name = sys.argv[1:]
def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as client:
        client.connect(address)
def send(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        return client.sendto(b"x", address)
outcomes["tcp"] = attempt(connect, socket.AF_INET, ("127.0.0.1", int(tcp)))
outcomes["udp"] = attempt(send, ("127.0.0.1", int(udp)))
outcomes["listen"] = attempt(lambda: socket.create_server(("127.0.0.1", 0)).close())
outcomes["mptcp"] = attempt(socket.socket, socket.AF_INET, socket.SOCK_STREAM, 262)
outcomes["raw"] = attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
outcomes["packet"] = attempt(socket.socket, socket.AF_PACKET, socket.SOCK_RAW)
outcomes["vsock"] = attempt(socket.socket, socket.AF_VSOCK, socket.SOCK_STREAM)
outcomes["crypto"] = attempt(socket.socket, socket.AF_ALG, socket.SOCK_SEQPACKET)
outcomes["pathname"] = attempt(connect, socket.AF_UNIX, f"{folder}/sock")
outcomes["abstract"] = attempt(connect, socket.AF_UNIX, "\\0" + name)
outcomes["datagram pair"] = attempt(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM)
first, second = socket.socketpair()
outcomes["reconnected pair"] = attempt(first.connect, f"{folder}/sock")
second.close()
outcomes["orphaned pair"] = attempt(first.connect, f"{folder}/sock")
"""
        arguments = (tcp.getsockname()[1], udp.getsockname()[1], write, f"mcp-bridge-{os.getpid()}")
        outcomes = attack(folder, script, *arguments, write=(str(write),), network=network)
    successes = {name for name, outcome in outcomes.items() if outcome.startswith("success")}
    assert successes == ({"tcp", "udp", "listen", "mptcp"} if network else set())


def test_processes_outside_cannot_be_reached(folder: Path) -> None:
    with subprocess.Popen(["sleep", "600"], env={"SECRET": "hidden"}) as victim:
        limits = psutil.Process(victim.pid).rlimit(psutil.RLIMIT_NOFILE)
        script = """
pid = int(sys.argv[1])
for number in (0, signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
    outcomes[f"signal {number}"] = attempt(os.kill, pid, number)
    outcomes[f"signal {number} to the supervisor"] = attempt(os.kill, os.getppid(), number)
outcomes["signal by descriptor"] = attempt(lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGKILL))
# The kernel sends this signal when the pipe becomes readable.
reading_end, writing_end = os.pipe()
fcntl.fcntl(reading_end, fcntl.F_SETOWN, pid)
fcntl.fcntl(reading_end, fcntl.F_SETSIG, signal.SIGKILL)
fcntl.fcntl(reading_end, fcntl.F_SETFL, os.O_ASYNC)
os.write(writing_end, b"x")
for name in ("environ", "cmdline", "mem", "maps", "status", "fd", "cwd", "root/etc/passwd"):
    outcomes[name] = attempt(lambda: os.open(f"/proc/{pid}/{name}", os.O_RDONLY))
outcomes["processes"] = attempt(os.listdir, "/proc")
outcomes["sockets"] = attempt(open, "/proc/self/net/tcp")
outcomes["threads' sockets"] = attempt(open, f"/proc/self/task/{os.getpid()}/net/unix")
outcomes["mounts"] = attempt(open, "/proc/self/mountinfo")
outcomes["limits"] = attempt(resource.prlimit, pid, resource.RLIMIT_NOFILE, (1, 1))
outcomes["priority"] = attempt(os.setpriority, os.PRIO_PROCESS, pid, 19)
outcomes["priority of the user"] = attempt(os.setpriority, os.PRIO_USER, 0, 19)
outcomes["processors"] = attempt(os.sched_setaffinity, pid, {0})
outcomes["scheduler"] = attempt(os.sched_setscheduler, pid, os.SCHED_IDLE, os.sched_param(0))
outcomes["oom"] = attempt(open, f"/proc/{pid}/oom_score_adj", "w")
"""
        try:
            outcomes = attack(folder, script, victim.pid)
            process = psutil.Process(victim.pid)
            assert process.status() in (psutil.STATUS_SLEEPING, psutil.STATUS_RUNNING)
            assert (process.nice(), process.rlimit(psutil.RLIMIT_NOFILE)) == (
                os.getpriority(os.PRIO_PROCESS, 0),
                limits,
            )
        finally:
            victim.kill()
    assert {name: outcome for name, outcome in outcomes.items() if outcome.startswith("success")} == {}


def test_own_processes_can_be_controlled(folder: Path) -> None:
    script = """
child = subprocess.Popen(["sleep", "600"])
child.terminate()
outcomes["child"] = str(child.wait())
outcomes["thread"] = attempt(os.setpriority, os.PRIO_PROCESS, 0, 5)
outcomes["limit"] = attempt(resource.setrlimit, resource.RLIMIT_NOFILE, (100, 100))
outcomes["output"] = subprocess.check_output(["/bin/bash", "-c", "echo a | cat <(echo b) -"], text=True)
"""
    outcomes = attack(folder, script)
    assert outcomes == {
        "child": str(-signal.SIGTERM), "thread": "success: None", "limit": "success: None", "output": "b\na\n"
    }  # fmt: skip


def test_the_process_has_no_privileges_and_gets_none(folder: Path) -> None:
    script = """
status = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True)
lines = open("/proc/self/status").read().splitlines()
outcomes = dict(line.split(":\\t") for line in lines if line.startswith(("Cap", "NoNewPrivs", "Seccomp:")))
outcomes["namespaces"] = str(subprocess.run(["unshare", "-Ur", "true"]).returncode != 0)
outcomes["descriptors"] = str(sorted(os.listdir("/proc/self/fd")))
"""
    outcomes = attack(folder, script)
    nothing = "0" * 16
    capabilities = dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapAmb"), nothing)
    assert {name: outcomes[name] for name in capabilities} == capabilities
    assert os.getuid() or outcomes["CapBnd"] == nothing
    assert (outcomes["NoNewPrivs"], outcomes["Seccomp"], outcomes["namespaces"]) == ("1", "2", "True")
    # The last one is that of the listing.
    assert outcomes["descriptors"] == "['0', '1', '2', '3']"


def test_the_supervisor_can_end_everything_in_the_sandbox(folder: Path) -> None:
    script = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True); sys.stdin.read()"
    command = [sys.executable, "-I", "-S", "-c", script]
    sandboxed_command = sandbox.build_command(command, SandboxOptions(type="landlock"), str(folder), MEMORY)
    words = system.wrap_command(sandboxed_command)
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, start_new_session=True) as supervisor:
        assert supervisor.stdout is not None
        sleeping_pid = int(supervisor.stdout.readline())
        children = psutil.Process(supervisor.pid).children(recursive=True)
        assert sleeping_pid in [child.pid for child in children]
        system.ProcessGroup(supervisor.pid).terminate()
        supervisor.wait(TIMEOUT)
    wait_until(lambda: not any(child.is_running() for child in children))


def test_a_restriction_that_cannot_be_applied_prevents_the_start(folder: Path) -> None:
    result = run_in_sandbox(folder, "print('started')", read=(str(folder / "nowhere"),))
    assert result.returncode == 127
    assert result.stdout == ""
    assert f"No such file or directory: '{folder}/nowhere'" in result.stderr

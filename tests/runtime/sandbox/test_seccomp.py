"""The filters of system calls decide alike on both processors. They are evaluated here as the kernel does it."""

from __future__ import annotations

import errno

import pytest

from mcp_bridge._runtime.kernel_sandbox.seccomp import (
    FORBIDDEN,
    LANDLOCK_FORBIDDEN,
    LANDLOCK_MISSING,
    LANDLOCK_UNSUPPORTED,
    MISSING,
    Instruction,
    build_bubblewrap_filter,
    build_landlock_filter,
)

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386 = 0x40000003
ALLOWED, IGNORED, KILLED = "allowed", "ignored", "killed"
NUMBERS = {
    "fchmod": (91, 52), "fchmodat": (268, 53), "socket": (41, 198), "socketpair": (53, 199), "clone": (56, 220),
    "ioctl": (16, 29), "openat": (257, 56), "utimensat": (280, 88), "setpriority": (141, 140), "prlimit64": (302, 261),
    "read": (0, 63), "execve": (59, 221),
}  # fmt: skip
on_both_machines = pytest.mark.parametrize("machine", ARCHITECTURES)


on_both_mechanisms = pytest.mark.parametrize("mechanism", ["landlock", "bubblewrap"])


def make_filter(mechanism: str, machine: str) -> list[Instruction]:
    if mechanism == "bubblewrap":
        return build_bubblewrap_filter(machine)
    return build_landlock_filter(machine, network=False)


def decide(
    machine: str, number: int, *arguments: int, architecture: int = 0, program: list[Instruction] | None = None
) -> str:
    """Return what a filter decides: `allowed`, `killed`, `ignored` (the call seems to succeed), or an error.

    By default, it is the filter for Landlock without network.
    """
    if program is None:
        program = build_landlock_filter(machine, network=False)
    words = {0: number, 4: architecture or ARCHITECTURES[machine]}
    for place, argument in enumerate((*arguments, *[0] * (6 - len(arguments)))):
        words[16 + 8 * place] = argument & 0xFFFFFFFF
        words[20 + 8 * place] = argument >> 32
    value, position = 0, 0
    while True:
        code, true_skip, false_skip, operand = program[position]
        position += 1
        if code == 0x20:
            value = words[operand]
        elif code == 0x54:
            value &= operand
        elif code == 0x06:
            break
        else:
            is_true = value == operand if code == 0x15 else value >= operand
            position += true_skip if is_true else false_skip
    outcomes = {0x7FFF0000: ALLOWED, 0x80000000: KILLED}
    error = operand & 0xFFFF
    return outcomes.get(operand) or (errno.errorcode[error] if error else IGNORED)


def get_number(machine: str, name: str) -> int:
    return NUMBERS[name][list(ARCHITECTURES).index(machine)]


@on_both_mechanisms
@on_both_machines
def test_calls_of_other_architectures_end_the_process(machine: str, mechanism: str) -> None:
    assert decide(machine, 1, architecture=I386, program=make_filter(mechanism, machine)) == KILLED


@on_both_mechanisms
@on_both_machines
@pytest.mark.parametrize("number", [470, 0x40000000 + 41, 0xFFFFFFFF])
def test_unknown_calls_are_missing(machine: str, number: int, mechanism: str) -> None:
    assert decide(machine, number, program=make_filter(mechanism, machine)) == "ENOSYS"


@on_both_mechanisms
@on_both_machines
def test_dangerous_calls_are_forbidden_with_all_arguments(machine: str, mechanism: str) -> None:
    tables = [(FORBIDDEN, "EPERM"), (MISSING, "ENOSYS")]
    if mechanism == "landlock":
        tables += [(LANDLOCK_FORBIDDEN, "EPERM"), (LANDLOCK_MISSING, "ENOSYS"), (LANDLOCK_UNSUPPORTED, "ENOTSUP")]
    program = make_filter(mechanism, machine)
    column = list(ARCHITECTURES).index(machine)
    for table, outcome in tables:
        for name, numbers in table.items():
            number = numbers[column]
            if number is not None:
                assert decide(machine, number, 1, 1, 1, 1, 1, 1, program=program) == outcome, name


@on_both_machines
def test_bubblewrap_leaves_to_its_namespaces_what_they_separate(machine: str) -> None:
    program = build_bubblewrap_filter(machine)
    column = list(ARCHITECTURES).index(machine)
    for table in (LANDLOCK_FORBIDDEN, LANDLOCK_MISSING, LANDLOCK_UNSUPPORTED):
        for name, numbers in table.items():
            number = numbers[column]
            if number is not None:
                assert decide(machine, number, 1, 1, program=program) == ALLOWED, name
    assert decide(machine, get_number(machine, "fchmod"), 3, 0o4700, program=program) == ALLOWED
    assert decide(machine, get_number(machine, "socketpair"), 1, 2, program=program) == ALLOWED
    for bit in (17, 25, 26, 27, 28, 29, 30):
        assert decide(machine, get_number(machine, "clone"), 0x11 | 1 << bit, program=program) == "EPERM"


@on_both_machines
@pytest.mark.parametrize(
    ("name", "arguments", "is_allowed"),
    [
        ("read", (0, 1 << 40, 100), True),
        ("execve", (1 << 40, 1 << 40, 1 << 40), True),
        ("socketpair", (1, 1 | 0o2000000), True),
        ("socketpair", (1, 5), True),
        ("socketpair", (1, 2), False),
        ("socketpair", (2, 1), False),
        ("clone", (0x01200011,), True),
        ("clone", (0x003D0F00,), True),
        *(("clone", (0x11 | 1 << bit,), False) for bit in (17, 25, 26, 27, 28, 29, 30)),
        ("ioctl", (0, 0x5401), True),
        ("ioctl", (0, 0x5412), False),
        ("ioctl", (0, 0x541C), False),
        ("ioctl", (0, 0x40086602), False),
        ("openat", (-100 & 0xFFFFFFFF, 1 << 40, 0o2000002), True),
        ("openat", (-100 & 0xFFFFFFFF, 1 << 40, 3), False),
        ("utimensat", (3, 0, 4096), True),
        ("utimensat", (3, 0, 0), True),
        ("utimensat", (3, 1 << 40, 0), False),
        ("utimensat", (3, 4096, 0), False),
        ("fchmod", (3, 0o600), False),
        ("fchmod", (3, 0o4755), False),
        ("fchmodat", (3, 4096, 0o700), False),
        ("prlimit64", (0, 7), True),
        ("prlimit64", (4242, 7), False),
        ("setpriority", (0, 0, 5), True),
        ("setpriority", (0, 4242, 5), False),
        ("setpriority", (2, 0, 5), False),
    ],
)
def test_calls_are_allowed_by_their_arguments(
    machine: str, name: str, arguments: tuple[int, ...], is_allowed: bool
) -> None:
    assert decide(machine, get_number(machine, name), *arguments) == (ALLOWED if is_allowed else "EPERM")


@on_both_machines
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("fchmod", (3, 0o644)),
        ("fchmod", (3, 0o100755)),
        ("fchmodat", (3, 4096, 0o666)),
        ("utimensat", (3, 4096, 4096)),
        ("utimensat", (3, 1 << 40, 1 << 40)),
    ],
)
def test_usual_modes_and_times_are_ignored(machine: str, name: str, arguments: tuple[int, ...]) -> None:
    assert decide(machine, get_number(machine, name), *arguments) == IGNORED


@on_both_machines
@pytest.mark.parametrize(
    ("mechanism", "network", "families"),
    [("landlock", False, []), ("landlock", True, [2, 10, 16]), ("bubblewrap", True, [1, 2, 10, 16])],
)
def test_sockets_of_few_families_are_allowed(machine: str, mechanism: str, network: bool, families: list[int]) -> None:
    if mechanism == "landlock":
        program = build_landlock_filter(machine, network=network)
    else:
        program = build_bubblewrap_filter(machine)
    socket = get_number(machine, "socket")
    allowed_families = [family for family in range(64) if decide(machine, socket, family, program=program) == ALLOWED]
    assert allowed_families == families

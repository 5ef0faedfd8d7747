"""The manifest of what the protocol requires of a server, and how a test says what it proves."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ERAS = {"2025-11-25": "handshake", "2026-07-28": "stateless"}
LEFT_OUT = "left_out"
"""The chapter of what no test here proves; it says why."""


@dataclass(frozen=True)
class Requirement:
    """One requirement: where the specification has it (revision/page#section), and what it asks, in one line."""

    id: str
    spec: tuple[str, ...]
    level: str
    text: str

    @property
    def eras(self) -> frozenset[str]:
        """The eras in which it holds: those of its revisions."""
        return frozenset(ERAS[address.split("/")[0]] for address in self.spec)


def requirements() -> dict[str, Requirement]:
    """The manifest, by id."""
    found: dict[str, Requirement] = {}
    for file in sorted((HERE / "requirements").glob("*.toml")):
        for name, row in tomllib.loads(file.read_text()).items():
            (level,) = row.keys() - {"spec"}
            number = f"{file.stem}/{name}"
            found[number] = Requirement(number, tuple(row["spec"]), level, row[level])
    return found


def proves(*ids: str) -> pytest.MarkDecorator:
    """Say which requirements a test proves, by their ids in the manifest."""
    return pytest.mark.proves(*ids)


@dataclass(frozen=True)
class Proof:
    """A test, a requirement that it names, and the eras it runs in."""

    requirement: str
    test: str
    eras: frozenset[str]


def proofs() -> Iterator[Proof]:
    """What the tests of this folder prove; read from their sources, so whatever is selected to run."""
    for file in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for requirement in _named(node.decorator_list):
                    yield Proof(requirement, f"{file.name}::{node.name}", _eras(node.decorator_list))


def _named(decorators: list[ast.expr]) -> Iterator[str]:
    for decorator in decorators:
        if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "proves":
            yield from (ast.literal_eval(argument) for argument in decorator.args)


def _eras(decorators: list[ast.expr]) -> frozenset[str]:
    """The eras that `over(...)` and its short forms leave; both without them."""
    chosen = frozenset(ERAS.values())
    for decorator in decorators:
        source = ast.unparse(decorator)
        if source == "HANDSHAKE_ONLY" or (source.startswith("over(") and "stateless=False" in source):
            chosen &= {"handshake"}
        if source == "STATELESS_ONLY" or (source.startswith("over(") and "stateless=True" in source):
            chosen &= {"stateless"}
    return chosen

"""The manifest of the protocol's requirements for a server, and the marks of tests that prove them."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

from tests.kits.paths import ROOT
from tests.kits.protocol.protocol_ways import Way, list_ways

HERE = Path(__file__).parent
ERAS = {"2025-11-25": "handshake", "2026-07-28": "stateless"}
LEFT_OUT = "left_out"
"""The file with the requirements without a test in tests/specification, with the reasons."""


@dataclass(frozen=True)
class Requirement:
    """One requirement: its place in the specification (revision/page#section), and its text in one line."""

    id: str
    spec: tuple[str, ...]
    level: str
    text: str

    @property
    def eras(self) -> frozenset[str]:
        """The eras of its revisions."""
        return frozenset(ERAS[address.split("/")[0]] for address in self.spec)


def read_requirements() -> dict[str, Requirement]:
    """Return all requirements by id."""
    by_id: dict[str, Requirement] = {}
    for file in sorted((HERE / "requirements").glob("*.toml")):
        for name, row in tomllib.loads(file.read_text()).items():
            (level,) = row.keys() - {"spec"}
            number = f"{file.stem}/{name}"
            by_id[number] = Requirement(number, tuple(row["spec"]), level, row[level])
    return by_id


def proves(*ids: str) -> pytest.MarkDecorator:
    """Mark a test with the ids of the requirements that it proves."""
    return pytest.mark.proves(*ids)


@dataclass(frozen=True)
class Proof:
    """A test, one of its requirements, and one of its ways."""

    requirement: str
    test: str
    way: Way

    @property
    def era(self) -> str:
        """The era of the way."""
        return "stateless" if self.way.stateless else "handshake"


def list_proofs() -> Iterator[Proof]:
    """Yield the proofs of tests/specification, from the marks of all its tests, whether or not they are selected."""
    for file in sorted((ROOT / "tests" / "specification").glob("test_*.py")):
        module = import_module(f"tests.specification.{file.stem}")
        for name, function in vars(module).items():
            if name.startswith("test_") and function.__module__ == module.__name__:
                marks = getattr(function, "pytestmark", [])
                ids = [requirement for mark in marks if mark.name == "proves" for requirement in mark.args]
                for requirement, way in itertools.product(ids, _ways(marks)):
                    yield Proof(requirement, f"{file.name}::{name}", way)


def _ways(marks: list[pytest.Mark]) -> list[Way]:
    """Return the ways of `over(...)`, or without it those of the fixture `way`."""
    for mark in marks:
        if mark.name == "parametrize" and mark.args[0] == "way":
            return list(mark.args[1])
    return list_ways("memory")

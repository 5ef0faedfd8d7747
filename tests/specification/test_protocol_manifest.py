"""The manifest and the tests agree: each requirement has a test, and each test names an existing requirement."""

from __future__ import annotations

import re

import pytest

from tests.kits.protocol.protocol_manifest import ERAS, LEFT_OUT, list_proofs, read_requirements

ADDRESS = re.compile(rf"({'|'.join(ERAS)})/[a-z/-]+(#[a-z0-9-]+)?")


CARRIERS = {"http": {"http", "sse"}, "stdio": {"stdio"}}
"""The chapters of a transport, and over what their requirements must be proven."""
BY_COMMAND = "http/loopback"
"""Where the command listens: proven by a process, over no way of these tests."""


def list_requirements(*chapters: str) -> set[tuple[str, str]]:
    """Return each requirement of these chapters, or of all, with each of its eras."""
    return {
        (requirement.id, era)
        for requirement in read_requirements().values()
        if requirement.id.split("/")[0] in (chapters or {requirement.id.split("/")[0]} - {LEFT_OUT})
        for era in requirement.eras
    }


def test_every_requirement_is_proven_in_each_of_its_eras() -> None:
    assert len(list_requirements()) > 200
    assert list_requirements() - {(proof.requirement, proof.era) for proof in list_proofs()} == set()


@pytest.mark.parametrize("chapter", CARRIERS)
def test_every_requirement_of_a_transport_is_proven_over_it(chapter: str) -> None:
    proven = {(proof.requirement, proof.era) for proof in list_proofs() if proof.way.transport in CARRIERS[chapter]}
    assert {missing for missing in list_requirements(chapter) - proven if missing[0] != BY_COMMAND} == set()


def test_every_requirement_that_a_test_names_is_in_the_manifest() -> None:
    known_requirements = read_requirements()
    all_proofs = list(list_proofs())
    assert len(all_proofs) > 150
    assert [proof for proof in all_proofs if proof.requirement not in known_requirements] == []
    assert [proof for proof in all_proofs if proof.requirement.startswith(LEFT_OUT)] == []


def test_every_requirement_has_an_address_and_one_line() -> None:
    for requirement in read_requirements().values():
        assert (
            requirement.level == "why"
            if requirement.id.startswith(LEFT_OUT)
            else requirement.level in {"must", "should"}
        )
        assert requirement.spec, requirement.id
        assert all(ADDRESS.fullmatch(address) for address in requirement.spec), requirement
        assert requirement.text.endswith("."), requirement
        assert "\n" not in requirement.text, requirement

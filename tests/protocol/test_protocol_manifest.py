"""The manifest and the tests hold each other: nothing is required that no test proves, nothing proven that is not."""

from __future__ import annotations

import re

from tests.kits.protocol.protocol_manifest import ERAS, LEFT_OUT, proofs, requirements

ADDRESS = re.compile(rf"({'|'.join(ERAS)})/[a-z/-]+(#[a-z0-9-]+)?")


def test_every_requirement_is_proven_in_each_of_its_eras() -> None:
    proven = {(proof.requirement, era) for proof in proofs() for era in proof.eras}
    asked = {
        (requirement.id, era)
        for requirement in requirements().values()
        if not requirement.id.startswith(LEFT_OUT)
        for era in requirement.eras
    }
    assert len(asked) > 200
    assert asked - proven == set()


def test_every_requirement_that_a_test_names_is_in_the_manifest() -> None:
    known = requirements()
    found = list(proofs())
    assert len(found) > 150
    assert [proof for proof in found if proof.requirement not in known] == []
    assert [proof for proof in found if proof.requirement.startswith(LEFT_OUT)] == []


def test_every_requirement_has_an_address_and_one_line() -> None:
    for requirement in requirements().values():
        assert (
            requirement.level == "why"
            if requirement.id.startswith(LEFT_OUT)
            else requirement.level in {"must", "should"}
        )
        assert requirement.spec, requirement.id
        assert all(ADDRESS.fullmatch(address) for address in requirement.spec), requirement
        assert requirement.text.endswith("."), requirement
        assert "\n" not in requirement.text, requirement

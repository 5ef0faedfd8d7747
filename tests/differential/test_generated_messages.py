"""Generated messages and the fuzz corpus get equal replies from the engine and from the SDK's server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kits.constants import ENVELOPE
from tests.kits.fuzzing import TIMES, build_text, read_corpus
from tests.kits.oracle.generated_messages import MessageGenerator, make_generators
from tests.kits.oracle.listed_differences import describe, find_difference
from tests.kits.oracle.twin_servers import Outcome, connect_twins
from tests.kits.survival.fuzz_messages import list_valid_messages

SEED, GENERATORS, LENGTH = 2026, 250, 20


async def compare(generator: MessageGenerator, length: int) -> list[Outcome]:
    """Return the outcomes of one generator. After a difference, which may have changed a state, reconnect."""
    outcomes: list[Outcome] = []
    while len(outcomes) < length:
        async with connect_twins() as twins:
            outcomes += [await twins.exchange(line) for line in generator.open()]
            while len(outcomes) < length and all(outcome.is_equal for outcome in outcomes[-1:]):
                outcomes.append(await twins.exchange(generator.generate()))
    return outcomes


@pytest.mark.parametrize("fifth", range(5))
async def test_generated_messages_get_equal_replies(fifth: int) -> None:
    outcomes: list[Outcome] = []
    for generator in make_generators(SEED + fifth, GENERATORS * TIMES // 5):
        outcomes += await compare(generator, LENGTH)
    unlisted = [outcome for outcome in outcomes if not outcome.is_equal and find_difference(outcome) is None]
    assert not unlisted, describe(min(unlisted, key=lambda outcome: len(outcome.line)))
    assert len(outcomes) >= 1000 * TIMES
    assert sum(outcome.is_equal and bool(outcome.engine) for outcome in outcomes) >= 300 * TIMES


@pytest.mark.parametrize("is_stateless", [False, True], ids=["handshake", "stateless"])
async def test_messages_that_once_failed_get_equal_replies(is_stateless: bool) -> None:
    meta = json.dumps(ENVELOPE if is_stateless else {})
    findings: list[Any] = [param.values[0] for param in read_corpus("message")]
    lines = [
        bytes.fromhex(finding["hex"]) if "hex" in finding else build_text(finding["text"]).encode()
        for finding in findings
    ]
    lines += [json.dumps(message).encode() for message in list_valid_messages(stateless=is_stateless)]
    for line in lines:
        async with connect_twins() as twins:
            for opening in _open(is_stateless):
                assert (await twins.exchange(opening)).is_equal
            outcome = await twins.exchange(line.replace(b"META", meta.encode()))
        assert outcome.is_equal or find_difference(outcome) is not None, describe(outcome)


def _open(is_stateless: bool) -> list[bytes]:
    generator = next(candidate for candidate in make_generators(0, 2) if candidate.is_stateless is is_stateless)
    return generator.begin()

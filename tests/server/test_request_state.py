"""Sealed states: each opens for the request it was sealed for, in its time, and nothing else opens."""

from __future__ import annotations

import base64
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS, RpcError
from mcp_bridge._server.questions.request_state import StateSealer
from tests.kits.clock import ManualClock

KEY, OTHER_KEY = "a key of forty bytes that is secret......", "another key of forty bytes, also unknown"
TEXT = "the state of Rumpelstilzchen"
REQUEST: dict[str, Any] = {
    "method": "tools/call",
    "params": {"name": "ask", "arguments": {"a": 1, "b": [{"x": None, "y": 0.5}]}},
    "principal": "ann",
}
SIZE = 4 * 1024 * 1024
"""The largest message that clients can send."""


def create_sealer(
    *keys: str, audience: str = "tests", ttl: float = 600.0, clock: ManualClock | None = None
) -> StateSealer:
    return StateSealer(keys or [KEY], ttl, audience, clock=clock)


def is_rejected(sealed: Any, sealer: StateSealer | None = None, **request: Any) -> bool:
    """Whether opening fails with the only error for clients. It is False if opening returns the text."""
    try:
        streams = (sealer or create_sealer()).open(sealed, **{**REQUEST, **request})
    except RpcError as error:
        rejection = (error.code, error.message, error.data)
    else:
        assert streams == TEXT
        return False
    assert rejection == (INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"})
    return True


@pytest.fixture(autouse=True)
def _nothing_of_states_or_keys_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG):
        yield
    written = "\n".join(f"{record.getMessage()} {record.exc_text or ''}" for record in caplog.records)
    for secret in (TEXT, KEY, OTHER_KEY, "v1."):
        assert secret not in written


# The request


@given(st.text(max_size=50))
@example("\ud800")
def test_a_state_opens_for_its_request(text: str) -> None:
    sealer = create_sealer()
    assert sealer.open(sealer.seal(text, **REQUEST), **REQUEST) == text


def test_a_state_opens_however_its_request_is_written() -> None:
    params = {
        "requestState": "...",
        "inputResponses": {"name": {}},
        "_meta": {"progressToken": 7},
        "arguments": {"b": [{"y": 0.5, "x": None}], "a": 1},
        "name": "ask",
    }
    assert not is_rejected(create_sealer().seal(TEXT, **REQUEST), params=params)


@pytest.mark.parametrize("params", [{"name": "ask"}, {"name": "ask", "arguments": None}])
def test_no_arguments_are_empty_arguments(params: dict[str, Any]) -> None:
    state = create_sealer().seal(TEXT, **{**REQUEST, "params": {"name": "ask", "arguments": {}}})
    assert not is_rejected(state, params=params)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "prompts/get"},
        {"method": "resources/read"},
        {"params": {**REQUEST["params"], "name": "ask2"}},
        {"params": {**REQUEST["params"], "arguments": {}}},
        {"params": {**REQUEST["params"], "arguments": {"a": "1", "b": [{"x": None, "y": 0.5}]}}},
        {"params": {**REQUEST["params"], "arguments": {"a": True, "b": [{"x": None, "y": 0.5}]}}},
        {"params": {**REQUEST["params"], "arguments": {"a": 1, "b": [{"y": 0.5}]}}},
        {"params": {**REQUEST["params"], "arguments": {"a": 1, "b": [{"x": None, "y": 0.5}], "c": 1}}},
        {"params": {"uri": "ask"}},
        {"params": {}},
        {"principal": "eve"},
        {"principal": ""},
        {"principal": None},
    ],
    ids=str,
)
def test_a_state_is_rejected_with_another_request(changes: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    sealer = create_sealer()
    assert is_rejected(sealer.seal(TEXT, **REQUEST), sealer, **changes)
    assert is_rejected(sealer.seal(TEXT, **{**REQUEST, **changes}), sealer)
    reason = "changed, or sealed for another request, principal or server"
    assert [record.getMessage() for record in caplog.records] == [
        f"requestState rejected on {changes.get('method', 'tools/call')}: {reason}",
        f"requestState rejected on tools/call: {reason}",
    ]


def test_a_read_is_bound_to_its_uri() -> None:
    read = {"method": "resources/read", "params": {"uri": "notes://1"}}
    state = create_sealer().seal(TEXT, **{**REQUEST, **read})
    assert not is_rejected(state, **read)
    assert is_rejected(state, **{**read, "params": {"uri": "notes://2"}})


def test_numbers_beyond_64_bits_are_bound_as_they_are() -> None:
    params, other_params = ({"name": "ask", "arguments": {"number": 2**80 + remainder}} for remainder in (0, 1))
    state = create_sealer().seal(TEXT, **{**REQUEST, "params": params})
    assert not is_rejected(state, params=params)
    assert is_rejected(state, params=other_params)


def test_arguments_that_are_nested_too_deeply_are_rejected() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert is_rejected(create_sealer().seal(TEXT, **REQUEST), params={"name": "ask", "arguments": {"a": deep}})


# Keys and audience


def test_the_first_key_seals_and_every_key_opens() -> None:
    old, rotating, new = create_sealer(KEY), create_sealer(OTHER_KEY, KEY, KEY), create_sealer(OTHER_KEY)
    assert not is_rejected(old.seal(TEXT, **REQUEST), rotating)
    assert not is_rejected(rotating.seal(TEXT, **REQUEST), new)
    assert is_rejected(rotating.seal(TEXT, **REQUEST), old)


def test_a_state_of_another_server_with_the_same_keys_is_rejected() -> None:
    assert is_rejected(create_sealer(audience="another").seal(TEXT, **REQUEST))


def test_without_keys_each_sealer_opens_only_the_states_that_it_sealed() -> None:
    params, other_params = (StateSealer([], 600.0, "tests") for _ in range(2))
    assert not is_rejected(params.seal(TEXT, **REQUEST), params)
    assert is_rejected(params.seal(TEXT, **REQUEST), other_params)


@pytest.mark.parametrize("ttl", [0.0, -1.0, float("inf"), float("nan")])
def test_a_ttl_must_be_positive_and_finite(ttl: float) -> None:
    with pytest.raises(ValueError, match="the ttl of a request state must be a positive number"):
        create_sealer(ttl=ttl)


def test_a_short_key_is_rejected_without_being_shown() -> None:
    with pytest.raises(ValueError, match="at least 32 bytes") as caught:
        create_sealer(KEY, "hush")
    assert "hush" not in str(caught.value)


# Time


def test_a_state_expires(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(1e9)
    sealer = create_sealer(ttl=100.0, clock=clock)
    state = sealer.seal(TEXT, **REQUEST)
    clock.now += 99.0
    assert not is_rejected(state, sealer)
    clock.now += 1.0
    assert is_rejected(state, sealer)
    assert caplog.messages == ["requestState rejected on tools/call: expired, or sealed in the future"]


def test_the_clock_of_another_instance_may_be_a_little_ahead() -> None:
    first_sealer, second_sealer = create_sealer(clock=ManualClock(1e9)), create_sealer(clock=ManualClock(1e9 + 59.0))
    assert not is_rejected(second_sealer.seal(TEXT, **REQUEST), first_sealer)
    assert is_rejected(create_sealer(clock=ManualClock(1e9 + 61.0)).seal(TEXT, **REQUEST), first_sealer)


# What is not a state


def test_a_sealed_text_is_unreadable_and_different_each_time() -> None:
    sealed = [create_sealer().seal(TEXT, **REQUEST) for _ in range(2)]
    assert sealed[0] != sealed[1]
    for state in sealed:
        body = state.removeprefix("v1.")
        assert b"Rumpel" not in base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))


def test_every_change_of_one_character_is_rejected() -> None:
    # The last character has 2, 4 or 6 bits.
    for text in (TEXT, f"{TEXT}!", f"{TEXT}!!"):
        state = create_sealer().seal(text, **REQUEST)
        for place, letter in enumerate(state):
            for other_params in {"A", "B", "-", "_", "+", "/", "=", "\n", "\u00e9"} - {letter}:
                assert is_rejected(state[:place] + other_params + state[place + 1 :])
            assert is_rejected(state[:place])
            assert is_rejected(state[:place] + state[place + 1 :]) or state[place] == state[place + 1]


@pytest.mark.parametrize("end", ["=", "==", "A", "AAAA", "\n", " ", "\x00", "."])
def test_an_addition_is_rejected(end: str) -> None:
    assert is_rejected(create_sealer().seal(TEXT, **REQUEST) + end)


@pytest.mark.parametrize("sealed", [None, 7, True, ["x"], {"v": 1}, b"v1.", "", "v1.", "v1.AAAA", "null", "\ud83d"])
def test_garbage_is_rejected(sealed: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert is_rejected(sealed)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@given(st.binary(max_size=200), st.booleans(), st.integers(0, 40))
def test_random_bytes_are_rejected(data: bytes, is_key_known: bool, length: int) -> None:
    state = create_sealer().seal(TEXT, **REQUEST)
    head = state[: 11 + length] if is_key_known else "v1."
    assert is_rejected(head + base64.urlsafe_b64encode(data).decode().rstrip("="))
    assert is_rejected(data.decode("latin-1"))


# Costs


@pytest.mark.parametrize("tail", ["A" * SIZE, "*" * SIZE, "\u00e9" * SIZE, "=" * SIZE], ids=lambda tail: tail[0])
def test_a_huge_state_is_cheap_to_reject(tail: str) -> None:
    sealer = create_sealer()
    known_names = sealer.seal(TEXT, **REQUEST)
    began = time.process_time()
    for head in ("", "v1.", known_names[:11], known_names):
        assert is_rejected(head + tail, sealer)
    assert time.process_time() - began < 2.0


def test_cryptography_is_imported_with_the_first_state() -> None:
    code = (
        "import sys; from mcp_bridge._server.questions.request_state import StateSealer\n"
        "sealer = StateSealer([], 1.0, 'tests')\n"
        "assert 'cryptography' not in sys.modules\n"
        "sealer.seal('', method='tools/call', params={}, principal=None); assert 'cryptography' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=dict(os.environ))

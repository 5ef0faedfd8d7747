"""A lasting approval applies to the same call alone, until it is revoked or expires."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from mcp_bridge import prompt
from mcp_bridge._policies.approvals.decisions import ApprovalSubject, hash_json
from mcp_bridge._policies.approvals.grants import MAX_SESSION_TIME as DAY
from mcp_bridge._policies.approvals.grants import GrantStore
from mcp_bridge._storage.stores.fault_tolerant import FaultTolerantStore
from mcp_bridge._storage.stores.memory import MemoryStore
from tests.kits.approvals.approvals_kit import (
    ALWAYS,
    DENY,
    ONCE,
    OPTIONS,
    SESSION,
    SESSION_KEY,
    RecordingStore,
    build_host,
    list_options,
)
from tests.kits.clock import ManualClock
from tests.kits.constants import EVERY_ERA, STATELESS
from tests.kits.fuzzing import use_examples
from tests.kits.hooks.hooks_kit import ScriptedUser, ask, get_code, open_client

A, B = {SESSION_KEY: "a"}, {SESSION_KEY: "b"}


@EVERY_ERA
async def test_a_lasting_approval_applies_to_the_same_arguments_alone(mode: str) -> None:
    host, user = build_host(MemoryStore()), ScriptedUser(ALWAYS)
    async with open_client(host, mode, user) as client:
        for n in (1, 1, 2, 1, 2):
            assert not (await client.call_tool("add", {"n": n})).is_error
        await client.call_tool("say", {"text": "1"})
    async with open_client(host, mode, user) as another:
        await another.call_tool("add", {"n": 1})
    assert (len(user.asked), len(host.calls)) == (3, 7)


async def test_a_revoked_approval_is_requested_again(mode: str) -> None:
    store = MemoryStore()
    host, user = build_host(store), ScriptedUser(ALWAYS, DENY)
    async with open_client(host, mode, user) as client:
        await client.call_tool("add", {"n": 1})
        (grant,) = await GrantStore(store).list_grants()
        assert (grant.tool, grant.scope, grant.arguments) == ("add", "always", hash_json({"n": 1}))
        await GrantStore(store).revoke_grant(grant.id)
        assert get_code(await client.call_tool("add", {"n": 1})) == "approval_declined"
    assert (len(user.asked), await GrantStore(store).list_grants()) == (2, [])


@EVERY_ERA
async def test_an_approval_for_a_session_does_not_apply_to_another_session(mode: str) -> None:
    host, user = build_host(MemoryStore()), ScriptedUser(SESSION, SESSION, DENY)
    async with open_client(host, mode, user) as client, open_client(host, mode, user) as second_client:
        for _ in range(2):
            assert not (await client.call_tool("add", {"n": 1}, meta=A)).is_error
            assert not (await client.call_tool("add", {"n": 1}, meta=B)).is_error
            assert not (await second_client.call_tool("add", {"n": 1}, meta=A)).is_error
        assert get_code(await client.call_tool("add", {"n": 2}, meta=A)) == "approval_declined"
    assert len(user.asked) == 3


async def test_in_the_handshake_era_a_session_is_a_connection() -> None:
    host, user = build_host(MemoryStore()), ScriptedUser(SESSION)
    async with open_client(host, "legacy", user) as client, open_client(host, "legacy", user) as second_client:
        for caller in (client, client, second_client, client):
            assert not (await caller.call_tool("add", {"n": 1})).is_error
    assert len(user.asked) == 2


@pytest.mark.parametrize("choice", [ONCE, DENY])
async def test_single_approvals_and_denials_are_not_remembered(mode: str, choice: str) -> None:
    store = RecordingStore()
    host, user = build_host(store), ScriptedUser(choice)
    async with open_client(host, mode, user) as client:
        for _ in range(2):
            assert (await client.call_tool("add", {"n": 1})).is_error is (choice == DENY)
    assert (len(user.asked), store.sets) == (2, [])


async def test_only_options_that_can_be_remembered_are_offered(mode: str) -> None:
    with_store, without = build_host(MemoryStore()), build_host()
    user = ScriptedUser(DENY)
    for host in (with_store, without):
        async with open_client(host, mode, user) as client:
            await client.call_tool("add", {"n": 1}, meta=A)
    assert [list_options(count) for count in user.asked] == [list(OPTIONS), [ONCE, DENY]]


async def test_a_client_without_a_session_gets_no_option_for_it() -> None:
    host, user = build_host(MemoryStore()), ScriptedUser(DENY)
    async with open_client(host, STATELESS, user) as client:
        await client.call_tool("add", {"n": 1})
    assert [list_options(count) for count in user.asked] == [[ONCE, ALWAYS, DENY]]


async def test_options_of_a_hook_replace_those_of_the_settings(mode: str) -> None:
    host, user = build_host(MemoryStore(), hooks=False), ScriptedUser("Allow")
    host.on("tool:pre", ask(approval_options=["Allow", "Deny"]))
    async with open_client(host, mode, user) as client:
        for _ in range(2):
            await client.call_tool("add", {"n": 1}, meta=A)
    assert [list_options(count) for count in user.asked] == [["Allow", "Deny"]] * 2


@pytest.mark.parametrize(("choice", "count"), [("allow ALWAYS", 1), ("Allow for session", 1), ("Yes", 2)])
async def test_options_of_a_hook_can_be_remembered(mode: str, choice: str, count: int) -> None:
    host, user = build_host(MemoryStore(), hooks=False), ScriptedUser(choice)
    host.on("tool:pre", ask(approval_options=[choice, "No"]))
    async with open_client(host, mode, user) as client:
        for _ in range(2):
            assert not (await client.call_tool("add", {"n": 1}, meta=A)).is_error
    assert len(user.asked) == count


async def test_the_option_always_of_a_hook_applies_once_without_a_store(mode: str) -> None:
    host, user = build_host(hooks=False), ScriptedUser("Allow always")
    host.on("tool:pre", ask(approval_options=["Allow always", "No"]))
    async with open_client(host, mode, user) as client:
        for _ in range(2):
            assert not (await client.call_tool("add", {"n": 1})).is_error
    assert len(user.asked) == 2


async def test_a_remembered_decision_applies_to_the_same_question_alone(mode: str) -> None:
    host, user = build_host(MemoryStore(), hooks=False), ScriptedUser(ALWAYS)
    prompts = iter(["Add?", "Add?", "Add, though it is Sunday?"])
    host.on("tool:pre", lambda data: ask(next(prompts)))
    async with open_client(host, mode, user) as client:
        for _ in range(3):
            await client.call_tool("add", {"n": 1})
    assert user.prompts == ["Add?", "Add, though it is Sunday?"]


@EVERY_ERA
async def test_an_approval_of_a_result_applies_to_the_same_result_alone(mode: str) -> None:
    host, user = build_host(MemoryStore(), hooks=False), ScriptedUser(ALWAYS)
    answers = iter(["one", "one", "two"])
    host.on("tool:post", ask("Pass it on?"))
    host.on("tool:post", lambda data: {"action": "modify", "data": {"result": next(answers)}}, priority=-1)
    async with open_client(host, mode, user) as client:
        for _ in range(3):
            assert not (await client.call_tool("say", {"text": "x"})).is_error
    assert len(user.asked) == 2


async def test_a_failing_store_repeats_a_question_and_fails_no_call(mode: str) -> None:
    class Broken(MemoryStore):
        async def get(self, key: str) -> bytes | None:
            raise OSError("no")

        async def set(self, key: str, value: bytes, ttl: float) -> None:
            raise OSError("no")

    host, user = build_host(FaultTolerantStore(Broken())), ScriptedUser(ALWAYS)
    async with open_client(host, mode, user) as client:
        for _ in range(2):
            assert not (await client.call_tool("add", {"n": 1})).is_error
    assert len(user.asked) == 2


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"id": 1}', b"\xff"])
async def test_an_unreadable_grant_allows_nothing(content: bytes) -> None:
    store = MemoryStore()
    host, user = build_host(store), ScriptedUser(ALWAYS, DENY)
    async with open_client(host, "legacy", user) as client:
        await client.call_tool("add", {"n": 1})
        (key,) = await store.keys("")
        await store.set(key, content, 100)
        assert (await client.call_tool("add", {"n": 1})).is_error
    assert await GrantStore(store).list_grants() == []


async def test_a_grant_copied_to_another_call_allows_nothing() -> None:
    store = MemoryStore()
    grants = GrantStore(store)
    subjects = [ApprovalSubject.for_call("add", {"n": n}, "?") for n in (1, 2)]
    for subject in subjects:
        await grants.add_grant(subject, "always")
    first, second = await store.keys("")
    await store.set(second, await store.get(first) or b"", 100)
    assert [await grants.find_grant(subject) is not None for subject in subjects] == [True, False]


async def test_a_grant_applies_to_one_principal_kind_and_bridge() -> None:
    store = MemoryStore()
    grants, second_grants = GrantStore(store, bridge="one"), GrantStore(store, bridge="two")
    mine = ApprovalSubject.for_call("add", {"n": 1}, "?", principal="me")
    await grants.add_grant(mine, "always")
    assert await grants.find_grant(mine) is not None
    assert await grants.find_grant(ApprovalSubject.for_call("add", {"n": 1}, "?", principal="you")) is None
    assert (
        await grants.find_grant(ApprovalSubject.for_call("add", {"n": 1}, "?", principal="me", kind="prompt")) is None
    )
    assert await second_grants.find_grant(mine) is None
    assert (len(await grants.list_grants()), await second_grants.list_grants()) == (1, [])


async def test_a_grant_expires_even_if_the_store_keeps_it() -> None:
    clock = ManualClock()
    grants = GrantStore(MemoryStore(), expires=3 * DAY, clock=clock)
    subject = ApprovalSubject.for_call("add", {}, "?", session="s")
    await grants.add_grant(subject, "always")
    await grants.add_grant(subject, "session")
    assert sorted(grant.scope for grant in await grants.list_grants()) == ["always", "session"]
    clock.now += DAY
    assert [grant.scope for grant in await grants.list_grants()] == ["always"]
    clock.now += 2 * DAY
    assert (await grants.find_grant(subject), await grants.list_grants()) == (None, [])


async def test_the_store_contains_no_arguments() -> None:
    store = RecordingStore()
    host, user = build_host(store), ScriptedUser(ALWAYS)
    async with open_client(host, "legacy", user) as client:
        await client.call_tool("say", {"text": "my password"})
    assert len(store.sets) == 1
    assert b"password" not in store.sets[0] + "".join(await store.keys("")).encode()


async def test_grants_of_a_store_without_keys_cannot_be_listed() -> None:
    class Mute:
        get = set = add = delete = None

    with pytest.raises(TypeError, match="Mute has no method `keys`"):
        await GrantStore(Mute()).list_grants()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "second"),
    [({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({"a": (1, 2)}, {"a": [1, 2]}), ({"n": 1.5}, {"n": 1.5})],
)
def test_the_same_arguments_have_the_same_hash(first: Any, second: Any) -> None:
    assert hash_json(first) == hash_json(second)


@pytest.mark.parametrize(
    ("first", "second"), [({"a": 1}, {"a": "1"}), ({"a": 1}, {"a": True}), ({}, None), ({"a": "b"}, {"a": ["b"]})]
)
def test_different_arguments_have_different_hashes(first: Any, second: Any) -> None:
    assert hash_json(first) != hash_json(second)


JSON_TEXTS = st.text(st.characters(max_codepoint=0xA0) | st.characters())
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | JSON_TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(JSON_TEXTS, inner),
    max_leaves=10,
)


@use_examples(300)
@given(JSON_VALUES)
def test_a_hash_is_computed_from_the_json_of_the_standard_library(value: Any) -> None:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    assert hash_json(value) == sha256(text.encode()).hexdigest()


async def test_a_remembered_decision_applies_only_if_its_option_is_offered(mode: str) -> None:
    host, options = build_host(MemoryStore(), hooks=False), [ONCE, ALWAYS, DENY]
    host.on("tool:pre", lambda data: ask(approval_options=list(options)))
    user = ScriptedUser(ALWAYS, DENY)
    async with open_client(host, mode, user) as client:
        for _ in range(2):
            assert not (await client.call_tool("add", {"n": 1})).is_error
        options.remove(ALWAYS)
        assert get_code(await client.call_tool("add", {"n": 1})) == "approval_declined"
    assert len(user.asked) == 2


@EVERY_ERA
async def test_a_prompt_with_a_new_text_needs_another_approval(mode: str) -> None:
    host, words = build_host(MemoryStore(), hooks=False), ["tidy up", "tidy up", "delete all"]
    host.on("prompt:submit", ask())

    @prompt(registry=host.registry)
    def advice() -> str:
        """Advises."""
        return words.pop(0)

    user = ScriptedUser(ALWAYS, DENY)
    async with open_client(host, mode, user) as client:
        for _ in range(2):
            await client.get_prompt("advice", {})
        with pytest.raises(MCPError, match="not approved"):
            await client.get_prompt("advice", {})
    assert len(user.asked) == 2


async def test_without_a_store_users_can_allow_even_if_all_options_need_one(
    mode: str,
) -> None:
    host, user = build_host(None, options=(ALWAYS, DENY)), ScriptedUser("Allow")
    async with open_client(host, mode, user) as client:
        assert not (await client.call_tool("add", {"n": 1})).is_error
    assert list_options(user.asked[0]) == ["Allow", "Deny"]

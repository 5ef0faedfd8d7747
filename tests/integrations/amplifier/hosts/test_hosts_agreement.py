"""The hook registry of the bridge agrees with that of amplifier-core."""

from __future__ import annotations

import random
from typing import Any

import amplifier_core
import pytest

from mcp_bridge._integrations.amplifier.core import CoreCoordinator, CoreHooks
from mcp_bridge.amplifier import HookRegistry

ROUNDS = 25


def choose_result(random: random.Random, name: str, names: list[str]) -> Any:
    """Return a random action of a handler. Only one handler asks, because amplifier-core supports one question."""
    action = random.choice(["continue", "continue", "inject_context", "modify", "ask_user", "deny", None])
    if action == "ask_user" and not names:
        names.append(name)
        return amplifier_core.HookResult(action=action, approval_prompt=f"{name}?", approval_options=["Yes", "No"])
    if action == "inject_context":
        return amplifier_core.HookResult(
            action=action, context_injection=f"{name} says", ephemeral=random.random() < 0.5
        )
    if action == "modify":
        return lambda data: amplifier_core.HookResult(action="modify", data={**data, name: 1})
    if action == "deny" and random.random() < 0.4:
        return amplifier_core.HookResult(action="deny", reason=f"{name} forbids")
    return None if action is None else amplifier_core.HookResult(action="continue")


def choose_handlers(number: int) -> list[tuple[int, str, Any]]:
    """Return the handlers of one example: priority, name and decision."""
    chance, requests = random.Random(number), []
    return [
        (chance.randint(-2, 2), f"h{at}", choose_result(chance, f"h{at}", requests))
        for at in range(chance.randint(0, 5))
    ]


async def emit_event(registry: Any, handlers: list[tuple[int, str, Any]]) -> tuple[Any, list[Any]]:
    """Return the decision of a registry, and the fields of each handler in order."""
    events: list[Any] = []
    for priority, name, answer in handlers:

        async def handler(event: str, data: dict[str, Any], name: str = name, answer: Any = answer) -> Any:
            events.append((name, event, {key: value for key, value in data.items() if key != "timestamp"}))
            return answer(data) if callable(answer) else answer

        registry.register("tool:pre", handler, priority=priority, name=name)
    registry.set_default_fields(session_id="s", parent_id=None)
    return await registry.emit("tool:pre", {"tool_name": "t", "nested": {"a": [1]}}), events


def remove_added_fields(result: Any) -> dict[str, Any]:
    """Return the data after the handlers without the fields that amplifier-core adds."""
    return {key: value for key, value in result.data.items() if key not in ("timestamp", "session_id", "parent_id")}


@pytest.mark.parametrize("number", range(ROUNDS))
async def test_order_precedence_denials_and_texts_are_the_same(number: int) -> None:
    handlers = choose_handlers(number)
    theirs, their_calls = await emit_event(amplifier_core.HookRegistry(), handlers)
    ours, our_calls = await emit_event(HookRegistry(), handlers)
    assert our_calls == their_calls
    assert ours.action == theirs.action or (ours.action, theirs.action) == ("modify", "continue")
    if theirs.action == "deny":
        assert ours.reason == theirs.reason
    elif theirs.action == "ask_user":
        assert (ours.approval_prompt, ours.approval_options) == (theirs.approval_prompt, theirs.approval_options)
    elif theirs.action == "inject_context":
        assert (ours.context_injection, ours.ephemeral) == (theirs.context_injection, theirs.ephemeral)
        assert ours.context_injection_role == theirs.context_injection_role
    else:
        assert remove_added_fields(ours) == remove_added_fields(theirs)


def test_the_examples_have_every_action() -> None:
    def actions(value: list[tuple[int, str, Any]]) -> set[str]:
        return {"modify" if callable(answer) else answer.action for _, _, answer in value if answer is not None}

    values = [actions(choose_handlers(number)) for number in range(ROUNDS)]
    assert set().union(*values) == {"continue", "deny", "modify", "inject_context", "ask_user"}


async def test_collected_results_are_the_same() -> None:
    def registered(registry: Any) -> Any:
        async def answers(event: str, data: dict[str, Any]) -> Any:
            return amplifier_core.HookResult(action="modify", data={"seen": data["n"]})

        async def breaks(event: str, data: dict[str, Any]) -> Any:
            raise RuntimeError("broken")

        for handler in (answers, breaks, lambda event, data: None):
            registry.register("x", handler)
        return registry

    for registry in (amplifier_core.HookRegistry(), HookRegistry()):
        assert await registered(registry).emit_and_collect("x", {"n": 1}, timeout=60.0) == [{"seen": 1}]


def test_both_registries_and_both_coordinators_have_the_same_names() -> None:
    def public(item: Any) -> set[str]:
        return {name for name in dir(item) if not name.startswith("_")}

    assert public(amplifier_core.HookRegistry) - public(HookRegistry) == set()
    assert public(amplifier_core.ModuleCoordinator) - public(CoreCoordinator) == set()
    core = amplifier_core.HookRegistry()
    for registry in (core, HookRegistry(), CoreHooks()):
        unregister = registry.register("x", print, priority=1, name="n")
        registry.on("y", print, name="m")
        assert registry.list_handlers() == {"x": ["n"], "y": ["m"]}
        unregister()
        registry.unregister("m")
        assert registry.list_handlers("x") == {"x": []}
        assert registry.TOOL_PRE == core.TOOL_PRE

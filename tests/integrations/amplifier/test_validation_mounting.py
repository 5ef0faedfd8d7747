"""What modules are mounted on when they are checked: it remembers what they read and register."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_bridge._integrations.amplifier.validation.mounting import RecordingConfig, RecordingCoordinator
from mcp_bridge.amplifier.testing import MockProvider, MockTool


@pytest.mark.parametrize(
    ("reads", "found"),
    [
        (lambda config: config["a"], {"a"}),
        (lambda config: config.get("b"), {"b"}),
        (lambda config: "c" in config, {"c"}),
        (lambda config: config.pop("a"), {"a"}),
        (lambda config: config.setdefault("d", 1), {"d"}),
        (lambda config: config or {}, {"*"}),
        (lambda config: {**config}, {"*"}),
        (lambda config: dict(config), {"*"}),
        (lambda config: config.copy(), {"*"}),
        (lambda config: list(config.items()), {"*"}),
        (list, {"*"}),
        (lambda config: len(config), set()),
        (lambda config: None, set()),
    ],
)
def test_a_configuration_knows_what_was_read(reads: Callable[[RecordingConfig], Any], found: set[str]) -> None:
    config = RecordingConfig({"a": 1})
    reads(config)
    assert config.read >= found
    assert bool(config.read) == bool(found)


def test_a_configuration_is_a_dict_like_any_other() -> None:
    config = RecordingConfig({"a": 1, "b": {"c": 2}})
    assert isinstance(config, dict)
    assert config == {"a": 1, "b": {"c": 2}}
    assert (config.get("x", 3), config.setdefault("y", 4), config.pop("y"), config.pop("z", 5)) == (3, 4, 4, 5)
    assert not RecordingConfig({})
    assert {**config} == config.copy() == dict(config)


async def test_what_is_registered_is_known_with_its_priority() -> None:
    coordinator = RecordingCoordinator()

    async def heard(event: str, data: dict[str, Any]) -> None: ...

    unregister = coordinator.hooks.on("tool:pre", heard, 7)
    coordinator.hooks.register("tool:post", heard, name="mine")
    assert [(event, one.priority, one.name) for event, one in coordinator.list_registrations()] == [
        ("tool:pre", 7, "heard"),
        ("tool:post", 0, "mine"),
    ]
    unregister()
    assert coordinator.hooks.list_handlers() == {"tool:post": ["mine"]}
    assert list(coordinator.list_mounted("hook")) == ["mine on tool:post"]


def test_the_result_of_mount_is_treated_as_in_a_session() -> None:
    coordinator, tool, provider = RecordingCoordinator(), MockTool("a"), MockProvider()
    assert [coordinator.accept_result(result) for result in (tool, provider, tool, None, print)] == [""] * 5
    assert coordinator.list_mounted("tool") == {"a": tool}
    assert coordinator.list_mounted("provider") == {"mock": provider}
    assert coordinator.cleanups == [print]
    assert coordinator.accept_result({"a": 1}) == "`mount` returns a dict"
    coordinator.mount("session", loop := object(), name="orchestrator")
    assert coordinator.accept_result(loop) == ""
    assert coordinator.list_mounted("orchestrator") == {"orchestrator": loop}
    assert coordinator.list_mounted("context") == {}

"""What modules are mounted on when they are checked: it remembers what they read and register."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_bridge.amplifier.testing import MockProvider, MockTool
from mcp_bridge.amplifier.validation.bench import Bench, Config


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
def test_a_configuration_knows_what_was_read(reads: Callable[[Config], Any], found: set[str]) -> None:
    config = Config({"a": 1})
    reads(config)
    assert config.read >= found
    assert bool(config.read) == bool(found)


def test_a_configuration_is_a_dict_like_any_other() -> None:
    config = Config({"a": 1, "b": {"c": 2}})
    assert isinstance(config, dict)
    assert config == {"a": 1, "b": {"c": 2}}
    assert (config.get("x", 3), config.setdefault("y", 4), config.pop("y"), config.pop("z", 5)) == (3, 4, 4, 5)
    assert not Config({})
    assert {**config} == config.copy() == dict(config)


async def test_what_is_registered_is_known_with_its_priority() -> None:
    bench = Bench()

    async def heard(event: str, data: dict[str, Any]) -> None: ...

    unregister = bench.hooks.on("tool:pre", heard, 7)
    bench.hooks.register("tool:post", heard, name="mine")
    assert [(one.event, one.priority, one.name) for one in bench.watched.made] == [
        ("tool:pre", 7, "heard"),
        ("tool:post", 0, "mine"),
    ]
    unregister()
    assert bench.hooks.list_handlers() == {"tool:post": ["mine"]}
    assert list(bench.modules("hook")) == ["heard on tool:pre", "mine on tool:post"]


def test_what_mount_answers_is_taken_as_a_session_takes_it() -> None:
    bench, tool, provider = Bench(), MockTool("a"), MockProvider()
    assert [bench.take(answer) for answer in (tool, provider, tool, None, print)] == [""] * 5
    assert bench.modules("tool") == {"a": tool}
    assert bench.modules("provider") == {"mock": provider}
    assert bench.cleanups == [print]
    assert bench.take({"a": 1}) == "`mount` answers with a dict"
    bench.mount("session", loop := object(), name="orchestrator")
    assert bench.take(loop) == ""
    assert bench.modules("orchestrator") == {"orchestrator": loop}
    assert bench.modules("context") == {}

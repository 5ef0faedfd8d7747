"""Combining sources in a bridge, and the failure of one of them."""

from __future__ import annotations

import itertools
import textwrap
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge._app.bridge import AttachedSource, Bridge, Identity
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.source import Publish, SourceContext
from mcp_bridge._contracts.state import State
from mcp_bridge._contracts.tasks import TaskOptions
from mcp_bridge._engine.selection import Selection
from mcp_bridge._settings import load
from mcp_bridge._sources.openapi.source import OpenApiOptions, OpenApiSource
from mcp_bridge._sources.python import PythonSource
from mcp_bridge.errors import ConfigError
from mcp_bridge.sources import Offer, PromptEntry, ResourceEntry, Source
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.questions.asking_kit import serve_client
from tests.kits.wire.speaking import call, get_text, list_tools, make_entry


@dataclass
class ControlledSource(Source):
    """A source under the control of a test: it publishes offers, and then stays."""

    name: str
    offers: list[Offer] = field(default_factory=list)
    error: Exception | None = None
    begun: anyio.Event = field(default_factory=anyio.Event)
    go_on: anyio.Event = field(default_factory=anyio.Event)
    stay: bool = True
    publish: Publish | None = None
    ended: bool = False

    async def run(self, publish: Publish) -> None:
        self.publish = publish
        self.begun.set()
        try:
            for offer in self.offers:
                publish(offer)
            await self.go_on.wait()
            if self.error is not None:
                raise self.error
            if self.stay:
                await anyio.sleep_forever()
        finally:
            self.ended = True


def make_offer(*names: str, problems: tuple[str, ...] = (), partial: bool = False, **fields: Any) -> Offer:
    tools = [make_entry(lambda data, name=name: name, name, **fields) for name in names]
    return Offer(tools=tools, problems=problems, partial=partial)


def build_bridge(*sources: Any, registry: ToolRegistry | None = None, **selection: Any) -> Bridge:
    return Bridge(registry, [AttachedSource(source=source, selection=Selection(**selection)) for source in sources])


# Lives


async def test_sources_start_concurrently_and_the_start_waits_for_all() -> None:
    class Meeting(ControlledSource):
        async def run(self, publish: Publish) -> None:
            self.begun.set()
            await other_of[self.name].begun.wait()
            publish(make_offer(self.name))

    first, second = Meeting("one"), Meeting("two")
    other_of = {"one": second, "two": first}
    bridge = build_bridge(first, second)
    with anyio.fail_after(TIMEOUT):
        async with bridge.run_sources():
            await bridge.wait_until_started()
            assert bridge.registry.list_names() == ["one", "two"]
    assert isinstance(first, Source)


async def test_a_source_that_does_not_start_is_published_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_bridge._app.bridge.START_LIMIT", 0.05)
    slow = ControlledSource("slow")
    bridge = build_bridge(slow, ControlledSource("fast", [make_offer("fast_tool")]))
    with anyio.fail_after(TIMEOUT):
        async with connect(bridge) as client:
            assert [tool["name"] for tool in await list_tools(client)] == ["fast_tool"]
            assert "has not started within" in bridge.problems["slow"][0]
            assert slow.publish is not None
            slow.publish(make_offer("slow_tool"))
            assert bridge.registry.list_names() == ["fast_tool", "slow_tool"]
    assert bridge.problems["slow"] == []


async def test_an_import_that_hangs_in_a_worker_delays_no_other_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_bridge._app.bridge.START_LIMIT", 0.05)
    (tmp_path / "hangs.py").write_text("import time\ntime.sleep(3600)\n")
    (tmp_path / "works.py").write_text(
        "from mcp_bridge import tool\n\n@tool\ndef greet() -> str:\n    return 'hello'\n"
    )
    settings = tmp_path / "mcp-bridge.yaml"
    settings.write_text(
        "sources:\n  - {type: python, path: hangs.py, isolation: process}\n  - {type: python, path: works.py}\n"
    )
    with anyio.fail_after(TIMEOUT):
        async with connect(build_from_settings(load(settings, {}))) as client:
            assert [tool["name"] for tool in await list_tools(client)] == ["greet"]
            assert get_text(await call(client, "greet")) == "hello"


async def test_a_start_that_computes_in_a_thread_does_not_hold_the_end(tmp_path: Path) -> None:
    start, released = threading.Event(), threading.Event()

    class ComputingSource(OpenApiSource):
        def _build_offer(self, *args: Any) -> Offer:
            start.set()
            released.wait(TIMEOUT)
            return Offer()

    document = tmp_path / "api.json"
    document.write_text('{"openapi": "3.1.0", "paths": {}}')
    bridge = build_bridge(ComputingSource("api", OpenApiOptions(document=str(document)), SourceContext()))
    try:
        with anyio.fail_after(TIMEOUT / 2):
            async with bridge.run_sources():
                await to_thread.run_sync(start.wait, TIMEOUT)
    finally:
        released.set()


async def test_a_bridge_without_sources_is_started_at_once() -> None:
    bridge = Bridge()
    async with bridge.run_sources():
        with anyio.fail_after(TIMEOUT):
            await bridge.wait_until_started()


@BOTH_LOOPS
async def test_a_call_waits_for_a_source_that_starts_for_longer_than_first_requests_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow(ControlledSource):
        async def run(self, publish: Publish) -> None:
            await self.go_on.wait()
            await super().run(publish)

    monkeypatch.setattr("mcp_bridge._server.responses.READY_TIMEOUT", 0.01)
    monkeypatch.setattr("mcp_bridge._app.bridge.START_LIMIT", 0.01)
    slow = Slow("slow", [make_offer("echo")])
    async with serve_client(build_bridge(ControlledSource("quick", [make_offer("a")]), slow)) as client:
        with monkeypatch.context() as impatient:
            impatient.setattr("mcp_bridge._app.bridge.START_TIMEOUT", 0.01)
            result = (await client.request("tools/call", {"name": "echo"}))["result"]
        assert result["isError"]
        assert get_text(result) == "The tool may be of a source that is still starting: 'slow'. Retry later."
        number = await client.send_request("tools/call", {"name": "echo"})
        await anyio.wait_all_tasks_blocked()
        slow.go_on.set()
        assert get_text((await client.receive_response(number))["result"]) == "echo"


@BOTH_LOOPS
@pytest.mark.parametrize("tasks", [False, True])
async def test_what_is_published_does_not_wait_for_sources_that_are_starting(
    tasks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_bridge._app.bridge.START_LIMIT", 0.01)
    # A call that waited for the other source would run into the timeout of the client.
    monkeypatch.setattr("mcp_bridge._app.bridge.START_TIMEOUT", 1000.0)
    greeting = PromptEntry("greeting", lambda data: "hello")
    resource = ResourceEntry("note://a", lambda data: "text")
    ready = replace(make_offer("echo"), prompts=[greeting], resources=[resource])
    sources = [AttachedSource(ControlledSource("ready", [ready])), AttachedSource(ControlledSource("slow"))]
    bridge = Bridge(None, sources, state=State(tasks=TaskOptions() if tasks else None))
    async with serve_client(bridge) as client:
        assert get_text((await client.request("tools/call", {"name": "echo"}))["result"]) == "echo"
        prompt = (await client.request("prompts/get", {"name": "greeting"}))["result"]
        assert prompt["messages"][0]["content"]["text"] == "hello"
        contents = (await client.request("resources/read", {"uri": "note://a"}))["result"]["contents"]
        assert contents[0]["text"] == "text"


@BOTH_LOOPS
async def test_a_crashed_source_loses_only_its_tools(caplog: pytest.LogCaptureFixture) -> None:
    bad = ControlledSource("bad", [make_offer("a", "b")], RuntimeError("broken\npipe"))
    good = ControlledSource("good", [make_offer("c")])
    bridge = build_bridge(bad, good)
    async with connect(bridge) as client:
        assert bridge.registry.list_names() == ["a", "b", "c"]
        bad.go_on.set()
        await anyio.wait_all_tasks_blocked()
        assert bridge.registry.list_names() == ["c"]
        assert get_text(await call(client, "c")) == "c"
    assert bridge.problems["bad"] == ["broken", "pipe"]
    assert bridge.problems["good"] == []
    assert "source 'bad' ended: broken" in caplog.text
    assert good.ended


async def test_a_source_that_returns_keeps_its_tools() -> None:
    source = ControlledSource("s", [make_offer("a")], stay=False)
    source.go_on.set()
    bridge = build_bridge(source)
    async with bridge.run_sources():
        await bridge.wait_until_started()
        await anyio.wait_all_tasks_blocked()
        assert source.ended
        assert bridge.registry.list_names() == ["a"]


@BOTH_LOOPS
async def test_the_problem_of_a_source_is_the_error_inside_of_exception_groups() -> None:
    group = ExceptionGroup("outer", [ExceptionGroup("inner", [ValueError("broken")])])
    bad = ControlledSource("bad", [make_offer("a")], group)
    bridge = build_bridge(bad, ControlledSource("good", [make_offer("c")]))
    async with connect(bridge):
        bad.go_on.set()
        await anyio.wait_all_tasks_blocked()
    assert bridge.problems["bad"] == ["broken"]


async def test_the_start_fails_if_every_source_ends_without_a_tool() -> None:
    bad, none = (
        ControlledSource("bad", error=ValueError("no file")),
        ControlledSource("none", [make_offer(problems=("nothing there",))], stay=False),
    )
    bad.go_on.set()
    none.go_on.set()
    bridge = build_bridge(bad, none)
    async with bridge.run_sources():
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(SourceError) as caught:
            await bridge.wait_until_started()
    assert sorted(str(caught.value).splitlines()) == ["no file", "nothing there"]


async def test_a_source_without_tools_that_still_lives_may_have_some_later() -> None:
    source = ControlledSource("s", [make_offer(problems=("not yet",))])
    bridge = build_bridge(source)
    async with bridge.run_sources():
        await bridge.wait_until_started()
        assert source.publish is not None
        source.publish(make_offer("a"))
        assert bridge.registry.list_names() == ["a"]
        assert bridge.problems["s"] == []


@BOTH_LOOPS
async def test_the_end_of_the_block_ends_every_source_and_its_error_is_raised_unwrapped() -> None:
    first, second = ControlledSource("one", [make_offer("a")]), ControlledSource("two")

    async def block() -> None:
        async with build_bridge(first, second).run_sources():
            await first.begun.wait()
            await second.begun.wait()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await block()
    assert first.ended
    assert second.ended


# Names


async def test_two_sources_with_equal_tool_names_stop_the_start_with_an_error_for_both() -> None:
    bridge = build_bridge(
        ControlledSource("one", [make_offer("same", "a")]), ControlledSource("two", [make_offer("same")])
    )
    async with bridge.run_sources():
        with pytest.raises(ConfigError) as caught:
            await bridge.wait_until_started()
    assert "'same'" in str(caught.value)
    assert "source 'one'" in str(caught.value)
    assert "source 'two'" in str(caught.value)
    assert "prefix" in str(caught.value)


async def test_the_name_of_a_tool_in_the_registry_stops_the_start_too() -> None:
    registry = ToolRegistry()
    registry.register(make_entry(lambda data: 1, "same"))
    bridge = build_bridge(ControlledSource("one", [make_offer("same")]), registry=registry)
    async with bridge.run_sources():
        with pytest.raises(ConfigError, match="the registry itself"):
            await bridge.wait_until_started()


async def test_a_later_collision_is_reported_and_the_published_tools_stay(caplog: pytest.LogCaptureFixture) -> None:
    first, second = ControlledSource("one", [make_offer("a")]), ControlledSource("two", [make_offer("b")])
    bridge = build_bridge(first, second)
    async with connect(bridge) as client:
        assert second.publish is not None
        second.publish(make_offer("a", "c"))
        assert [tool["name"] for tool in await list_tools(client)] == ["a", "b"]
        await bridge.wait_until_started()
        assert "'a' comes from both source 'one' and source 'two'" in bridge.problems["two"][0]
        assert "comes from both" in caplog.text
        second.publish(make_offer("c"))
        assert bridge.registry.list_names() == ["a", "c"]
        assert bridge.problems["two"] == []


@pytest.mark.parametrize("order", [*itertools.permutations(["first", "second", "own"])], ids="-".join)
async def test_the_owner_of_a_name_does_not_depend_on_the_order_of_publication(order: tuple[str, ...]) -> None:
    offers = {
        "first": make_offer("a", "b", partial=True),
        "second": make_offer("A", "b", "c", partial=True),
        "own": make_offer("a"),
    }
    sources = {name: ControlledSource(name) for name in offers}
    bridge = build_bridge(*sources.values())
    async with bridge.run_sources():
        for name in order:
            await sources[name].begun.wait()
            publish = sources[name].publish
            assert publish is not None
            publish(offers[name])
        await bridge.wait_until_started()
        assert {tool.name: tool.owner for tool in bridge.registry.list()} == {"a": "own", "b": "first", "c": "second"}
        assert bridge.problems["own"] == []
        (problem,) = bridge.problems["first"]
        alike, same = bridge.problems["second"]
    assert "Tool 'a' comes from both source 'own' and source 'first'" in problem
    assert "Tool 'A' of source 'second' looks like 'a'" in alike
    assert "Tool 'b' comes from both source 'first' and source 'second'" in same


@pytest.mark.parametrize(
    ("selection", "names", "problems"),
    [
        ({"prefix": "my"}, ["my__fetch", "my__read"], []),
        ({"alias": {"red": "cat"}}, ["fetch", "read"], ["alias: there is no tool 'red'"]),
        ({"include": ["r*"]}, ["read"], []),
        ({"tags": ["y"]}, [], []),
    ],
    ids=str,
)
async def test_tools_are_published_as_selected(
    selection: dict[str, Any], names: list[str], problems: list[str]
) -> None:
    bridge = build_bridge(ControlledSource("s", [make_offer("read", "fetch", tags=["x"])]), **selection)
    async with bridge.run_sources():
        await bridge.wait_until_started()
        assert bridge.registry.list_names() == names
        assert bridge.problems["s"] == problems


async def test_an_alias_equal_to_another_tool_of_its_source_is_rejected() -> None:
    bridge = build_bridge(ControlledSource("s", [make_offer("a", "b")]), alias={"a": "b"})
    async with bridge.run_sources():
        with pytest.raises(ConfigError, match="Two tools in source 's' are named 'b'"):
            await bridge.wait_until_started()


# Schemas


LOOK_AROUND = {"type": "object", "properties": {"code": {"type": "string", "pattern": "^(?=a)b"}}}


@pytest.mark.parametrize("side", ["input", "output"])
def test_an_authors_pattern_with_look_around_is_rejected_with_its_place(side: str, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from mcp_bridge import ToolEntry\n"
        f"bad = ToolEntry('bad', '', lambda data: 1, {side}_schema={LOOK_AROUND!r})\n"
        "good = ToolEntry('good', '', lambda data: 1)\n"
    )
    offer = PythonSource("s", path=tmp_path / "tools.py").load()
    assert [entry.name for entry in offer.tools] == ["good"]
    [problem] = offer.problems
    assert problem.startswith(f"tool 'bad' is not published: {side} schema #/properties/code/pattern: ")
    assert problem.endswith("'^(?=a)b' cannot be used. Patterns run in linear time: write it without look-around")


# Settings


def load_settings(folder: Path, text: str) -> Any:
    path = folder / "bridge.yaml"
    path.write_text(textwrap.dedent(text))
    (folder / "tools.py").write_text("from mcp_bridge import tool\n@tool\ndef greet(): return 'hi'\n")
    return load(path, {})


async def test_settings_become_a_running_bridge(tmp_path: Path) -> None:
    settings = load_settings(
        tmp_path,
        """
        name: mine
        version: "7"
        title: My tools
        instructions: Be nice.
        expose_errors: true
        limits: {timeout: 5s, threads: 3}
        sources:
          - {type: python, path: tools.py, prefix: a}
          - {type: python, path: tools.py, name: second, alias: {greet: hello}}
        """,
    )
    bridge = build_from_settings(settings, private=True)
    pipeline = bridge.registry.pipeline
    assert (pipeline.timeout, pipeline.expose_errors) == (5.0, True)
    assert bridge.identity == Identity(
        name="mine",
        version="7",
        title="My tools",
        instructions="Be nice.",
        ttl_ms=60_000,
        private=True,
        is_open=True,
    )
    async with connect(bridge) as client:
        page = await client.list_tools()
        assert [tool.name for tool in page.tools] == ["a__greet", "hello"]
        assert get_text(await call(client, "hello")) == "hi"
        assert client.server_info.name == "mine"
        assert client.instructions == "Be nice."


def test_with_reload_clients_do_not_cache_lists(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, "sources: []\n")
    assert build_from_settings(settings, watch=True).identity.ttl_ms == 0
    assert build_from_settings(settings).identity.ttl_ms == 60_000


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("sources:\n  - type: python\n    path: tools.py\n    pth: x\n", 4, "pth"),
        ("name: x\nsources:\n  - type: pyton\n    path: tools.py\n", 3, "unknown source type 'pyton'"),
        ("sources:\n  - type: no_such_module:Options\n", 2, "no_such_module"),
        ("sources:\n  - type: textwrap:Options\n", 2, "has no 'Options'"),
        ("sources:\n  - type: python\n", 2, "either path or module"),
        ("sources:\n  - type: python\n    path: a.py\n    module: b\n", 2, "either path or module"),
        (
            "sources:\n  - {type: python, path: tools.py}\n  - {type: python, path: tools.py}\n",
            3,
            "two sources are named 'tools'",
        ),
    ],
)
def test_a_problem_of_a_source_is_reported_with_file_and_line(
    text: str, line: int, message: str, tmp_path: Path
) -> None:
    settings = load_settings(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        build_from_settings(settings)
    assert caught.value.path == str(tmp_path / "bridge.yaml")
    assert caught.value.line == line
    assert message in str(caught.value)


def test_invalid_settings_without_a_file_are_rejected_without_a_place() -> None:
    from mcp_bridge._settings import Settings

    settings = Settings.model_validate({"sources": [{"type": "pyton"}]})
    with pytest.raises(ConfigError) as caught:
        build_from_settings(settings)
    assert (caught.value.path, caught.value.line) == (None, None)


async def test_a_module_named_in_the_settings_is_a_source_of_that_name(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, "sources:\n  - {type: python, module: textwrap, tools: [dedent]}\n")
    bridge = build_from_settings(settings)
    async with connect(bridge) as client:
        assert get_text(await call(client, "dedent", text="  a")) == "a"
    assert list(bridge.problems) == ["textwrap"]


def test_an_error_of_settings_has_a_place_a_problem_and_a_hint() -> None:
    error = ConfigError("it is wrong", path="a.yaml", line=3, where="sources[0]", hint="Correct it")
    assert str(error) == "a.yaml:3: sources[0]: it is wrong. Correct it"
    assert str(ConfigError("it is wrong")) == "it is wrong"


async def test_a_registry_is_served_as_it_is_and_may_be_empty() -> None:
    registry = ToolRegistry()
    assert Bridge(registry).registry is registry
    async with connect(Bridge(registry)) as client:
        assert await list_tools(client) == []
        registry.register(ToolEntry("late", "", lambda data: "late"))
        assert get_text(await call(client, "late")) == "late"

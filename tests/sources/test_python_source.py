"""Tools from Python files, folders and modules: found by shape, reported by file and line, read again after edits."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge import ToolEntry
from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._app.factory import build_from_file
from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._runtime.python_import import forget_modules
from mcp_bridge._sources.python import PythonSource
from mcp_bridge.sources import Offer
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.wire.speaking import call, get_offer_after_edit, get_text, list_tools

GREET = """
    from mcp_bridge import tool

    @tool
    def greet(name: str) -> str:
        return f"Hello {name}"
"""


@pytest.fixture(autouse=True)
def interpreter() -> Iterator[None]:
    """Remove the modules imported by a test."""
    modules, path, writes = set(sys.modules), list(sys.path), sys.dont_write_bytecode
    # Use the default of Python, because the source itself must not write bytecode.
    sys.dont_write_bytecode = False
    yield
    assert sys.dont_write_bytecode is False
    sys.dont_write_bytecode, sys.path[:] = writes, path
    for name, module in list(sys.modules.items()):
        if name not in modules and "site-packages" not in (getattr(module, "__file__", None) or "site-packages"):
            del sys.modules[name]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def load(path: Path, **options: Any) -> Offer:
    return PythonSource("s", path=path, **options).load()


def list_tool_names(offer: Offer) -> list[str]:
    return sorted(entry.name for entry in offer.tools)


def has_no_bytecode(folder: Path) -> bool:
    return not [path for path in folder.rglob("*") if "pyc" in path.name]


# Files of a path


async def test_a_file_is_served(tmp_path: Path) -> None:
    async with connect(build_from_file(write(tmp_path / "tools.py", GREET))) as client:
        assert get_text(await call(client, "greet", name="Ann")) == "Hello Ann"


def test_a_folder_is_all_its_files_that_do_not_begin_with_an_underscore(tmp_path: Path) -> None:
    write(tmp_path / "_shared.py", "WORD = 'shared'\nfrom mcp_bridge import tool\n@tool\ndef hidden(): ...\n")
    write(tmp_path / "a.py", "import _shared\nfrom mcp_bridge import tool\n@tool\ndef a(): return _shared.WORD\n")
    write(tmp_path / "b.py", "from mcp_bridge import tool\n@tool\ndef b(): ...\n")
    write(tmp_path / "notes.txt", "not Python")
    write(tmp_path / "deeper" / "c.py", "from mcp_bridge import tool\n@tool\ndef c(): ...\n")
    offer = load(tmp_path)
    assert (list_tool_names(offer), offer.problems) == (["a", "b"], [])
    assert offer.tools[0].handler({}) == "shared"


def test_a_module_is_imported_from_its_directory(tmp_path: Path) -> None:
    write(tmp_path / "pack" / "__init__.py", "")
    write(tmp_path / "pack" / "inner.py", GREET)
    source = PythonSource("s", module="pack.inner", directory=tmp_path)
    assert list_tool_names(source.load()) == ["greet"]


def test_a_source_has_either_a_path_or_a_module(tmp_path: Path) -> None:
    for options in ({}, {"path": tmp_path, "module": "x"}):
        with pytest.raises(ValueError, match="either a path or a module"):
            PythonSource("s", **options)


def test_two_files_with_the_same_name_are_two_modules(tmp_path: Path) -> None:
    files = [write(tmp_path / name / "tools.py", GREET.replace("greet", name)) for name in ("one", "two")]
    assert [list_tool_names(load(path)) for path in files] == [["one"], ["two"]]


def test_no_bytecode_is_left(tmp_path: Path) -> None:
    write(tmp_path / "shared.py", "WORD = 1")
    load(write(tmp_path / "tools.py", "import shared\n" + textwrap.dedent(GREET)))
    assert has_no_bytecode(tmp_path)


# Shapes


SHAPES: dict[str, tuple[str, list[str]]] = {
    "an entry": (
        "from mcp_bridge import ToolEntry\nE = ToolEntry('e', 'An entry.', lambda data: 'ok', title='T')",
        ["e"],
    ),
    "a registry": (
        "from mcp_bridge.tool_use import ToolRegistry, tool\nregistry = ToolRegistry()\n"
        "for name in ('one', 'two'):\n    tool(name, registry=registry)(lambda data: 'ok')",
        ["one", "two"],
    ),
    "a chain": (
        "from mcp_bridge.tool_use import ChainStep, ToolChain, ToolRegistry, tool\n_registry = ToolRegistry()\n"
        "tool('step', registry=_registry)(lambda data: {'text': 'ok'})\n"
        "both = ToolChain(_registry).add_step(ChainStep('step'))",
        ["both", "step"],
    ),
    "a marked function": (GREET, ["greet"]),
    "one function twice": (textwrap.dedent(GREET) + "also = greet", ["greet"]),
    "an entry and its registry": (
        "from mcp_bridge.tool_use import ToolRegistry, tool\nregistry = ToolRegistry()\n"
        "@tool('one', registry=registry)\ndef one(data): return 'ok'",
        ["one"],
    ),
    "a function of codomyrmex": (
        """
        def double(n=1):
            '''Doubles.'''
            return "ok"
        double._mcp_tool_meta = {
            "name": "twice", "tags": ["math", 3],
            "schema": {"inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        }
        """,
        ["twice"],
    ),
    "a bare function of codomyrmex": (
        "def double():\n    return 'ok'\ndouble._mcp_tool_meta = {'schema': 3}",
        ["double"],
    ),
    "another package's entry": (
        """
        class Entry:
            name, description, input_schema, tags = "theirs", None, None, ("x",)
            def handler(self, data): return "ok"
        entry = Entry()
        """,
        ["theirs"],
    ),
    "another package's registry": (
        """
        class Entry:
            name, description, input_schema, output_schema = "theirs", "", {"type": "object"}, {"type": "string"}
            def handler(self, data): return "ok"
        class Registry:
            def list(self): return [Entry()]
            def list_names(self): return ["theirs"]
            def register(self, entry): ...
            def get(self, name): ...
        registry = Registry()
        """,
        ["theirs"],
    ),
    "another package's marked function": (
        """
        class Entry:
            name, description, input_schema = "theirs", "", {}
            def handler(self, data): return "ok"
        def function(): ...
        function.tool_entry = Entry()
        """,
        ["theirs"],
    ),
    "another package's chain": (
        """
        class Result:
            success, context = True, "ok"
        class Chain:
            steps = ["first"]
            def add_step(self, step): ...
            def execute(self, data): return Result()
        chain = Chain()
        """,
        ["chain"],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_tools_are_found_by_their_attributes(shape: str, tmp_path: Path) -> None:
    text, expected = SHAPES[shape]
    async with connect(build_from_file(write(tmp_path / "tools.py", text))) as client:
        tools = await list_tools(client)
        assert [tool["name"] for tool in tools] == expected
        result = await call(client, expected[0], **({"name": "ok"} if expected[0] == "greet" else {}))
    assert "ok" in get_text(result)
    assert not result["isError"]


def test_the_description_of_a_tool_of_another_package_is_kept(tmp_path: Path) -> None:
    [twice] = load(write(tmp_path / "tools.py", SHAPES["a function of codomyrmex"][0])).tools
    assert twice.description == "Doubles."
    assert twice.tags == ["math", "3"]
    assert twice.input_schema["properties"] == {"n": {"type": "integer"}}
    [theirs] = load(write(tmp_path / "more.py", SHAPES["another package's registry"][0])).tools
    assert (theirs.input_schema, theirs.output_schema) == ({"type": "object"}, {"type": "string"})


async def test_a_chain_of_another_package_fails_with_its_own_words(tmp_path: Path) -> None:
    text = SHAPES["another package's chain"][0].replace(
        'success, context = True, "ok"', 'success, errors = False, ["first: no", "second: no"]'
    )
    async with connect(build_from_file(write(tmp_path / "tools.py", text))) as client:
        result = await call(client, "chain")
    assert get_text(result) == "Chain failed: first: no; second: no"
    assert result["_meta"]["mcp-bridge/code"] == "chain_failed"


def test_objects_that_only_look_like_tools_are_ignored(tmp_path: Path) -> None:
    text = """
        import json
        from unittest import mock
        class Everything:
            def __getattr__(self, name): return lambda *args: None
        class Rude:
            def __getattr__(self, name): raise RuntimeError("do not ask")
        class NoCall:
            name = description = input_schema = handler = "text"
        everything, rude, no_call, mocked = Everything(), Rude(), NoCall(), mock.MagicMock()
        def function(): ...
        function._mcp_tool_meta = "text"
        function.tool_entry = "text"
        Marked = type("Marked", (), {"tool_entry": 1})
    """
    offer = load(write(tmp_path / "tools.py", text))
    assert offer.tools == []
    assert "no tools found" in offer.problems[0]


# Names in the settings


NAMED = """
    from mcp_bridge import tool
    def add(a: int, b: int = 1) -> int:
        "Adds."
        return a + b
    double = lambda n: n * 2
    class Point:
        "A point."
        def __init__(self, x: int) -> None:
            self.x = x
        def __str__(self) -> str:
            return f"at {self.x}"
    @tool("marked_as")
    def marked(data): return 1
    number = 3
    def bad(lock: "Missing") -> None: ...
"""


async def test_functions_named_in_the_settings_become_tools_of_that_name(tmp_path: Path) -> None:
    source = PythonSource("s", path=write(tmp_path / "tools.py", NAMED), tools=["add", "double", "Point", "marked"])
    async with connect(Bridge(sources=[AttachedSource(source=source)])) as client:
        assert [tool["name"] for tool in await list_tools(client)] == ["Point", "add", "double", "marked_as"]
        assert get_text(await call(client, "add", a=2)) == "3"
        assert get_text(await call(client, "double", n=2)) == "4"
        assert get_text(await call(client, "Point", x=2)) == "at 2"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone", "tools.py: there is no function 'gone', which the settings name as a tool"),
        ("number", "there is no function 'number'"),
        ("bad", "tools.py: 'bad' cannot be a tool: bad: parameter 'lock': 'Missing'"),
    ],
)
def test_a_name_that_cannot_be_a_tool_is_reported(name: str, message: str, tmp_path: Path) -> None:
    offer = load(write(tmp_path / "tools.py", NAMED), tools=[name])
    assert message in offer.problems[0]


def test_in_a_folder_a_named_function_is_taken_from_where_it_is(tmp_path: Path) -> None:
    write(tmp_path / "a.py", "def one(): ...")
    write(tmp_path / "b.py", "def two(): ...")
    assert list_tool_names(load(tmp_path, tools=["two"])) == ["two"]


# What cannot be imported


BROKEN: dict[str, tuple[str, str]] = {
    "a syntax error": ("x = 1\ndef broken(:\n", "tools.py:2: SyntaxError: "),
    "a missing module": (
        "\n\nimport no_such_module\n",
        "tools.py:3: ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "an exit": ("import sys\nsys.exit(3)\n", "tools.py:2: SystemExit: 3"),
    "an exit without a word": ("raise SystemExit\n", "tools.py:1: SystemExit: no message"),
    "an error inside the library that it calls": ("import json\n\njson.loads('{')\n", "tools.py:3: JSONDecodeError: "),
    "an exit inside the library that it calls": (
        "import argparse, sys\nsys.argv = ['x', '--wrong']\nargparse.ArgumentParser().parse_args()\n",
        "tools.py:3: SystemExit: 2",
    ),
    "an error in a sibling": ("import _sibling\n", "_sibling.py:2: ZeroDivisionError: "),
    "a relative import": (
        "from ._sibling import x\n",
        "tools.py:1: ImportError: attempted relative import with no known parent package. Serve it as a module",
    ),
    "an exception group": ("raise ExceptionGroup('several', [ValueError()])\n", "tools.py:1: ExceptionGroup: several"),
}


async def test_an_event_loop_in_a_file_is_an_error_with_advice(tmp_path: Path) -> None:
    offer = load(write(tmp_path / "tools.py", "import asyncio\nasyncio.run(None)\n"))
    assert offer.problems[0].endswith("The event loop is already running. Call it in a tool or a lifespan")


@pytest.mark.parametrize("fault", BROKEN)
def test_a_file_that_cannot_be_imported_is_named_with_its_line(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    text, message = BROKEN[fault]
    write(tmp_path / "_sibling.py", "\n1 / 0\n")
    offer = load(write(tmp_path / "tools.py", text))
    assert offer.tools == []
    assert offer.problems[0].startswith(f"{tmp_path}/{message}")


@pytest.mark.parametrize("fault", ["a syntax error", "an exit", "an error in a sibling"])
async def test_a_broken_file_of_a_folder_leaves_the_others_served(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    write(tmp_path / "_sibling.py", "\n1 / 0\n")
    write(tmp_path / "tools.py", BROKEN[fault][0])
    write(tmp_path / "good.py", GREET)
    bridge = build_from_file(tmp_path)
    async with connect(bridge) as client:
        assert get_text(await call(client, "greet", name="Ann")) == "Hello Ann"
    [problems] = bridge.problems.values()
    assert BROKEN[fault][1] in problems[0]
    assert BROKEN[fault][1] in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": Path("/no/such/tools.py")}, "/no/such/tools.py: no such file or folder"),
        ({"module": "no_such_module_at_all"}, "'no_such_module_at_all' cannot be imported: ModuleNotFoundError: "),
    ],
)
async def test_a_source_without_files_is_an_error(options: dict[str, Any], message: str) -> None:
    bridge = Bridge(sources=[AttachedSource(source=PythonSource("s", **options))])
    async with bridge.run_sources():
        with pytest.raises(SourceError, match=message):
            await bridge.wait_until_started()


def test_a_file_that_is_not_python_is_reported(tmp_path: Path) -> None:
    offer = load(write(tmp_path / "tools.toml", "a = 1"))
    assert "tools.toml: not a Python file" in offer.problems[0]


def test_output_of_a_module_at_import_does_not_reach_stdout(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    load(write(tmp_path / "tools.py", "print('hello')\n" + textwrap.dedent(GREET)))
    out, err = capfd.readouterr()
    assert (out, err) == ("", "hello\n")


async def test_two_tools_with_the_same_name_in_a_source_are_rejected(tmp_path: Path) -> None:
    write(tmp_path / "a.py", GREET)
    write(tmp_path / "b.py", GREET)
    bridge = build_from_file(tmp_path)
    async with bridge.run_sources():
        with pytest.raises(Exception, match=r"Two tools in source .* are named 'greet'"):
            await bridge.wait_until_started()


def test_forgetting_modules_keeps_this_package_and_installed_ones(tmp_path: Path) -> None:
    load(write(tmp_path / "tools.py", "import helper_of_tools\n" + textwrap.dedent(GREET)))
    write(tmp_path / "helper_of_tools.py", "")
    load(tmp_path / "tools.py")
    modules = {name for name in sys.modules if name.split(".")[0] in ("mcp_bridge", "anyio", "__main__", "json")}
    assert "helper_of_tools" in sys.modules
    forget_modules(tmp_path)
    assert "helper_of_tools" not in sys.modules
    forget_modules(Path(__file__).parents[2] / "mcp_bridge")
    assert modules <= set(sys.modules)
    assert sys.modules["mcp_bridge._contracts.tool"].ToolEntry is ToolEntry


# Reload


@asynccontextmanager
async def run_watching(source: PythonSource) -> AsyncIterator[list[Offer]]:
    """Run a watching source, and yield the list of its published offers."""
    offers: list[Offer] = []
    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(source.run, offers.append)
            await anyio.wait_all_tasks_blocked()
            yield offers
            tasks.cancel_scope.cancel()


async def edit_until_seen(path: Path, text: str, is_seen: Callable[[], bool]) -> None:
    """Write until the edit is seen, because the operating system does not report the start of a watch."""
    for attempt in range(1000):
        write(path, textwrap.dedent(text) + f"# {attempt}\n")
        for _ in range(60):
            await anyio.sleep(0.01)
            if is_seen():
                return


@BOTH_LOOPS
async def test_an_edit_replaces_the_tools_unless_it_is_broken(tmp_path: Path) -> None:
    path = write(tmp_path / "tools.py", GREET)
    async with run_watching(PythonSource("s", path=path, watch=True)) as offers:
        await edit_until_seen(path, GREET.replace("greet", "welcome"), lambda: len(offers) > 1)
        assert list_tool_names(offers[-1]) == ["welcome"]
        await edit_until_seen(path, "def broken(:\n", lambda: bool(offers[-1].problems))
        assert list_tool_names(offers[-1]) == ["welcome"]
        (problem,) = offers[-1].problems
        assert f"{path}:1: SyntaxError" in problem
        assert problem.endswith(": the tools stay as they were")
        await edit_until_seen(path, GREET.replace("Hello", "Good day"), lambda: not offers[-1].problems)
        assert offers[-1].tools[0].handler({"name": "Ann"}) == "Good day Ann"


@BOTH_LOOPS
async def test_a_file_that_was_broken_at_the_start_has_only_the_problem_of_its_last_edit(tmp_path: Path) -> None:
    path = write(tmp_path / "tools.py", "import nothing_of_this_name\n")
    async with run_watching(PythonSource("s", path=path, watch=True)) as offers:
        assert len(offers[-1].problems) == 1
        await edit_until_seen(path, "def broken(:\n", lambda: "SyntaxError" in str(offers[-1].problems))
        assert len(offers[-1].problems) == 1
        await edit_until_seen(path, GREET, lambda: not offers[-1].problems)
        assert list_tool_names(offers[-1]) == ["greet"]
    assert has_no_bytecode(tmp_path)


async def test_an_edit_of_a_module_that_tools_import_is_picked_up(tmp_path: Path) -> None:
    shared_file = write(tmp_path / "_words_of_tools.py", "WORD = 'old'\n")
    path = write(
        tmp_path / "tools.py",
        "import _words_of_tools as w\nfrom mcp_bridge import tool\n@tool\ndef say(): return w.WORD\n",
    )
    async with run_watching(PythonSource("s", path=path, watch=True)) as offers:
        assert offers[-1].tools[0].handler({}) == "old"
        await edit_until_seen(shared_file, "WORD = 'new'\n", lambda: len(offers) > 1)
        assert offers[-1].tools[0].handler({}) == "new"


async def test_a_module_is_followed_in_its_directory(tmp_path: Path) -> None:
    path = write(tmp_path / "followed_module.py", GREET)
    source = PythonSource("s", module="followed_module", directory=tmp_path, watch=True)
    async with run_watching(source) as offers:
        await edit_until_seen(path, GREET.replace("greet", "welcome"), lambda: len(offers) > 1)
        assert list_tool_names(offers[-1]) == ["welcome"]


async def test_clients_are_notified_of_an_edit_and_must_not_cache_lists(tmp_path: Path) -> None:
    path = write(tmp_path / "tools.py", GREET)
    bridge = build_from_file(path, watch=True)
    assert bridge.identity.ttl_ms == 0
    with anyio.fail_after(TIMEOUT):
        async with connect(bridge, mode="legacy") as client:
            await edit_until_seen(path, GREET.replace("greet", "welcome"), lambda: "welcome" in bridge.registry)
            assert [tool["name"] for tool in await list_tools(client)] == ["welcome"]


async def test_an_edit_that_comes_before_the_watcher_is_seen_too(tmp_path: Path) -> None:
    path = write(tmp_path / "tools.py", GREET)
    offer = await get_offer_after_edit(path, GREET.replace("greet", "welcome"))
    assert list_tool_names(offer) == ["welcome"]

"""The description of a server in settings and in Python, and its lifespan."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcp_bridge import CallContext, ToolRegistry, asgi_app, open_bridge
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_file, build_from_settings
from mcp_bridge._app.serve import to_bridge
from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._settings import load
from mcp_bridge.serving import ServerInfo
from mcp_bridge.testing import connect
from tests.kits.isolation.isolation_kit import build_bridge
from tests.kits.loops import BOTH_LOOPS

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
FILE = """
    from contextlib import asynccontextmanager
    from pathlib import Path

    import anyio

    from mcp_bridge import CallContext, resource, tool
    from mcp_bridge.serving import ServerInfo

    LOG = Path(__file__).with_name("log.txt")


    @asynccontextmanager
    async def connect_database():
        await anyio.sleep(0)
        yield {"database": "open"}
        await anyio.sleep(0)
        LOG.write_text("closed")


    server = ServerInfo(
        name="shop", version="3.1", title="The shop", instructions="Ask for the price.", lifespan=connect_database
    )


    @tool
    async def look(ctx: CallContext) -> str:
        return ctx.lifespan["database"]


    @tool
    def look_in_thread(item: str, ctx: CallContext) -> str:
        return item + ctx.lifespan["database"]


    @tool
    def plain() -> str:
        return "plain"


    @resource("state://database")
    async def state(ctx: CallContext) -> str:
        return ctx.lifespan["database"]
"""


WITH_TASKS = """
    from contextlib import asynccontextmanager
    from pathlib import Path

    import anyio

    from mcp_bridge import CallContext, tool
    from mcp_bridge.serving import ServerInfo


    async def set_later(event):
        event.set()


    @asynccontextmanager
    async def run_tasks():
        found = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            tasks.start_soon(set_later, found)
            yield found
            tasks.cancel_scope.cancel()
        Path(__file__).with_name("log.txt").write_text("closed")


    server = ServerInfo(lifespan=run_tasks)


    @tool
    async def look(ctx: CallContext) -> str:
        await ctx.lifespan.wait()
        return "from a task"
"""


def write_file(folder: Path, text: str = FILE) -> Path:
    path = folder / "tools.py"
    path.write_text(textwrap.dedent(text))
    return path


async def call(client: Any, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result
    return str(result.content[0].text)


@ERAS
async def test_a_file_declares_the_presentation_of_its_server(tmp_path: Path, mode: str) -> None:
    async with connect(build_from_file(write_file(tmp_path)), mode=mode) as client:
        info = client.server_info
        assert (info.name, info.version, info.title) == ("shop", "3.1", "The shop")
        assert client.instructions == "Ask for the price."


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("trails.py", WITH_TASKS, "trails"),
        ("tools.py", WITH_TASKS, "hiking"),
        ("trails.yaml", "{}", "trails"),
        ("mcp-bridge.yaml", "{}", "hiking"),
        ("trails.yaml", "name: My trails!", "My trails!"),
        ("trails.yaml", "name: mcp-bridge", "mcp-bridge"),
    ],
)
async def test_clients_see_the_name_that_install_uses(file: str, text: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "hiking" / file
    path.parent.mkdir()
    path.write_text(textwrap.dedent(text))
    async with open_bridge(path) as bridge, connect(bridge) as client:
        assert client.server_info.name == name


async def test_a_settings_file_that_is_a_link_has_the_name_of_the_link(tmp_path: Path) -> None:
    (tmp_path / "version 7").write_text("{}")
    (tmp_path / "trails.yaml").symlink_to("version 7")
    async with open_bridge(tmp_path / "trails.yaml") as bridge, connect(bridge) as client:
        assert client.server_info.name == "trails"


async def test_a_second_server_in_a_folder_is_a_problem(tmp_path: Path) -> None:
    for name in ("one", "two"):
        text = f"""
            from mcp_bridge import tool
            from mcp_bridge.serving import ServerInfo

            server = ServerInfo(name="{name}")

            @tool
            def {name}() -> None: ...
        """
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    bridge = build_from_file(tmp_path)
    async with bridge.run_sources():
        await bridge.wait_until_started()
    assert bridge.identity.name == "one"
    assert list(bridge.problems.values()) == [["several files declare a ServerInfo. Keep one of them"]]


async def test_settings_take_precedence_over_a_file(tmp_path: Path) -> None:
    write_file(tmp_path)
    settings = tmp_path / "bridge.yaml"
    settings.write_text("name: ours\nsources: [{type: python, path: tools.py}]\n")
    async with connect(build_from_settings(load(settings, {}))) as client:
        await client.list_tools()
        listing = await client.list_tools(cache_mode="bypass")
    assert listing.meta["io.modelcontextprotocol/serverInfo"] == {"name": "ours", "title": "The shop", "version": "3.1"}


@BOTH_LOOPS
async def test_the_lifespan_of_a_file_is_open_while_its_tools_are_called(tmp_path: Path) -> None:
    async with connect(build_from_file(write_file(tmp_path))) as client:
        assert await call(client, "look") == "open"
        assert await call(client, "look_in_thread", item="it is ") == "it is open"
        assert await call(client, "plain") == "plain"
        assert (await client.read_resource("state://database")).contents[0].text == "open"
        assert not (tmp_path / "log.txt").exists()
    assert (tmp_path / "log.txt").read_text() == "closed"


async def test_the_lifespan_of_an_isolated_file_runs_in_its_worker(tmp_path: Path) -> None:
    async with connect(build_bridge(tmp_path, "process", tools=textwrap.dedent(FILE))) as client:
        assert await call(client, "look") == "open"


@pytest.mark.parametrize("watch", [False, True])
async def test_a_lifespan_of_a_file_that_cannot_start_is_a_problem_of_its_source(tmp_path: Path, watch: bool) -> None:
    broken = FILE.replace("yield {", 'raise RuntimeError("no database")\n        yield {')
    path = write_file(tmp_path, broken)
    bridge = build_from_file(path, watch=watch)
    async with bridge.run_sources():
        if watch:
            await bridge.wait_until_started()
        else:
            with pytest.raises(SourceError):
                await bridge.wait_until_started()
    problem = f"{path}:16: the lifespan cannot start: RuntimeError: no database"
    assert bridge.problems == {"tools": [problem]}


async def test_a_lifespan_without_its_decorator_is_explained() -> None:
    async def lifespan() -> AsyncIterator[None]:
        yield

    with pytest.raises(
        SourceError, match=r"test_server_info\.py:\d+: the lifespan cannot start: TypeError: .*Decorate"
    ):
        async with Bridge(ToolRegistry(), lifespan=lifespan).run_sources():  # type: ignore[arg-type]
            raise AssertionError("the block ran")


async def test_an_error_at_the_end_of_a_lifespan_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        yield
        raise RuntimeError("still open")

    async with Bridge(ToolRegistry(), lifespan=lifespan).run_sources():
        pass
    assert "the lifespan failed at shutdown" in caplog.text


@BOTH_LOOPS
@pytest.mark.parametrize("watch", [False, True])
async def test_a_lifespan_can_have_a_task_group(tmp_path: Path, watch: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with connect(build_from_file(write_file(tmp_path, WITH_TASKS), watch=watch)) as client:
        assert await call(client, "look") == "from a task"
    assert (tmp_path / "log.txt").read_text() == "closed"
    assert not caplog.records


@BOTH_LOOPS
async def test_a_task_of_a_lifespan_that_fails_is_logged_and_serving_continues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing = WITH_TASKS.replace("event.set()", "event.set()\n        raise RuntimeError('no connection')")
    async with connect(build_from_file(write_file(tmp_path, failing))) as client:
        assert await call(client, "look") == "from a task"
    assert "the lifespan failed" in caplog.text
    assert "no connection" in caplog.text


@BOTH_LOOPS
async def test_a_lifespan_that_does_not_end_is_abandoned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mcp_bridge._runtime.lifespan.SHUTDOWN_TIMEOUT", 0.05)

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        yield
        await anyio.sleep_forever()

    with pytest.raises(LookupError, match="of the block"):
        async with Bridge(ToolRegistry(), lifespan=lifespan).run_sources():
            raise LookupError("of the block")
    assert "the lifespan did not shut down within 0.05 seconds" in caplog.text


def make_registry() -> tuple[ToolRegistry, list[str], Any]:
    registry, steps = ToolRegistry(), list[str]()

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[str]:
        steps.append("open")
        yield "the value"
        await anyio.lowlevel.checkpoint()
        steps.append("closed")

    @registry.tool
    async def look(ctx: CallContext) -> str:
        return str(ctx.lifespan)

    return registry, steps, lifespan


@BOTH_LOOPS
async def test_the_lifespan_of_a_registry_is_entered_once_and_reaches_nested_calls() -> None:
    registry, steps, lifespan = make_registry()

    @registry.tool
    async def outer(ctx: CallContext) -> str:
        return str((await ctx.invoke("look")).output)

    async with connect(Bridge(registry, lifespan=lifespan)) as client:
        assert await call(client, "look") == "the value"
        assert await call(client, "outer") == "the value"
        assert steps == ["open"]
    assert steps == ["open", "closed"]


async def test_an_app_has_the_given_name_lifespan_hosts_and_origins() -> None:
    registry, steps, lifespan = make_registry()
    app = asgi_app(
        registry,
        name="shop",
        version="2",
        title="The shop",
        instructions="Ask.",
        lifespan=lifespan,
        hosts=["shop.example"],
        origins=["https://shop.example"],
    )
    async with app.lifespan():
        assert steps == ["open"]
        assert await request_health(app, "shop.example", "https://shop.example") == 200
        assert await request_health(app, "other.example", "https://shop.example") == 421
        assert await request_health(app, "shop.example", "https://other.example") == 403
    assert steps == ["open", "closed"]


async def request_health(app: Any, host: str, origin: str) -> int:
    """Return the HTTP status of a request to /health."""
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    headers = [(b"host", host.encode()), (b"origin", origin.encode())]
    scope = {"type": "http", "method": "GET", "path": "/health", "headers": headers, "query_string": b""}
    await app({**scope, "client": ("127.0.0.1", 1)}, receive, send)
    return int(messages[0]["status"])


async def test_a_registry_is_served_with_the_description_of_its_server() -> None:
    icon = {"src": "https://shop.example/icon.png", "mimeType": "image/png"}
    details = {"description": "Sells apples.", "websiteUrl": "https://shop.example", "icons": [icon]}
    info = ServerInfo(
        name="shop",
        instructions="Ask.",
        description="Sells apples.",
        website_url="https://shop.example",
        icons=[icon],
    )
    for mode in ("legacy", "auto"):
        async with connect(to_bridge(ToolRegistry(), info=info), mode=mode) as client:
            assert client.server_info.name == "shop"
            assert client.instructions == "Ask."
            described = client.server_info.model_dump(by_alias=True, exclude_none=True)
            assert {key: described[key] for key in details} == details


async def test_a_lifespan_that_cannot_start_stops_the_start() -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield

    bridge = Bridge(ToolRegistry(), lifespan=lifespan)
    with pytest.raises(SourceError, match="the lifespan cannot start: RuntimeError: no database"):
        async with bridge.run_sources():
            raise AssertionError("the block ran")

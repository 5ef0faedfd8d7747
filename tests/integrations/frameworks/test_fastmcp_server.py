"""FastMCP servers in a file are served with all their offers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, PromptReference

from tests.kits.frameworks.environments import require_framework

require_framework("fastmcp")

from tests.kits.frameworks.example_files import list_readme_examples
from tests.kits.frameworks.server_examples import check_example
from tests.kits.frameworks.server_scenarios import *  # noqa: F403
from tests.kits.frameworks.server_scenarios import FASTMCP, call

pytestmark = pytest.mark.filterwarnings("ignore:The .* capability is deprecated")


@pytest.fixture
def kind() -> str:
    return FASTMCP


async def test_state_lasts_as_long_as_the_session(serve: Any, era: str) -> None:
    text = f"""{FASTMCP}
mcp = Server("demo")

@mcp.tool
async def count(ctx: Context) -> int:
    number = (await ctx.get_state("number") or 0) + 1
    await ctx.set_state("number", number)
    return number
"""
    async with serve(text, mode=era) as client:
        assert [await call(client, "count"), await call(client, "count")] == ["1", "2"]


async def test_middleware_of_the_server_sees_calls(serve: Any) -> None:
    text = f"""{FASTMCP}
from fastmcp.server.middleware import Middleware
mcp = Server("demo")

class Closed(Middleware):
    async def on_call_tool(self, context, call_next):
        raise ToolError(f"{{context.message.name}} is closed")

mcp.add_middleware(Closed())

@mcp.tool
def say() -> str:
    return "open"
"""
    async with serve(text) as client:
        assert await call(client, "say") == "say is closed"


async def test_mounted_servers_and_transformed_tools_are_served(serve: Any) -> None:
    text = f"""{FASTMCP}
from fastmcp.tools import Tool
child = Server("child")
mcp = Server("demo")

@child.tool
async def ask(ctx: Context) -> str:
    return (await ctx.elicit("Name?", str)).data

@child.resource("data://one")
def one() -> str:
    return "1"

def add(a: int, b: int) -> int:
    return a + b

mcp.mount(child, namespace="sub")
mcp.add_tool(Tool.from_tool(add, name="plus"))
"""

    async def answer(*_: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"value": "Ann"})

    async with serve(text, elicitation_callback=answer) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["plus", "sub_ask"]
        assert [await call(client, "plus", a=1, b=2), await call(client, "sub_ask")] == ["3", "Ann"]
        assert (await client.read_resource("data://sub/one")).contents[0].text == "1"


async def test_functions_find_the_context_that_they_do_not_take(serve: Any) -> None:
    text = f"""{FASTMCP}
from fastmcp.dependencies import CurrentContext, Depends
from fastmcp.server.dependencies import get_context
mcp = Server("demo")

def load_user() -> str:
    return f"user of {{get_context().request_id}}"

@mcp.tool
def who() -> str:
    return load_user()

@mcp.tool
async def who_is(user: str = Depends(load_user), ctx: Context = CurrentContext()) -> str:
    return user if ctx.request_id in user else "another user"
"""
    async with serve(text) as client:
        assert (await call(client, "who")).startswith("user of ")
        assert (await call(client, "who_is")).startswith("user of ")


async def test_a_function_inside_of_another_one_finds_the_context(serve: Any) -> None:
    text = f"""{FASTMCP}
mcp = Server("demo")

def add_tools():
    def find_id() -> str:
        from fastmcp.server.dependencies import get_context
        return get_context().request_id

    @mcp.tool()
    def own() -> str:
        from fastmcp.server.dependencies import get_context
        return get_context().request_id

    @mcp.tool()
    def other() -> str:
        return find_id()

add_tools()
"""
    async with serve(text) as client:
        results = [await client.call_tool(name, {}) for name in ("own", "other")]
    assert [result.is_error for result in results] == [False, False]


async def test_code_of_other_modules_finds_the_context(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "context_helpers.py").write_text("from context_depths import find_id\ndef load(): return find_id()\n")
    (tmp_path / "context_depths.py").write_text(
        "from fastmcp.server.dependencies import get_context\ndef find_id(): return get_context().request_id\n"
    )
    (tmp_path / "context_classes.py").write_text(
        "from fastmcp.server.dependencies import get_context\n"
        "class Users:\n    def find_id(self): return get_context().request_id\n"
    )
    text = f"""{FASTMCP}
%s
mcp = Server("demo")

@mcp.tool
def who() -> str:
    %s
"""
    for import_line, body in (
        ("from context_helpers import load", "return 'user of ' + load()"),
        ("from context_classes import Users\nusers = Users()", "return 'user of ' + users.find_id()"),
        ("", "from fastmcp.server.dependencies import get_context\n    return 'user of ' + get_context().request_id"),
    ):
        async with serve(text % (import_line, body)) as client:
            assert (await call(client, "who")).startswith("user of ")


def test_a_server_of_a_settings_file_is_described_to_a_client_that_does_not_wait(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(f'{FASTMCP}\nmcp = Server("demo", instructions="Climb.")\n')
    (tmp_path / "mcp-bridge.yaml").write_text("sources: [{type: python, path: server.py}]")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    command = [sys.executable, "-m", "mcp_bridge", "serve"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()
        result = json.loads(process.stdout.readline())["result"]
        process.stdin.close()
    assert (result["serverInfo"]["name"], result["instructions"]) == ("demo", "Climb.")


async def test_templates_are_listed_as_written_and_the_server_reads_their_variables(serve: Any, era: str) -> None:
    text = f"""{FASTMCP}
from pydantic import Field
mcp = Server("demo")

@mcp.resource("files://{{path*}}")
def read(path: str) -> str:
    return path

@mcp.resource("items://{{category}}{{?tags,page-size}}")
def search(category: str, tags: list[str] = Field(default_factory=list), page_size: int = 10) -> str:
    return f"{{category}} {{tags}} {{page_size}}"
"""
    reads = {
        "files://a/b/c.txt": "a/b/c.txt",
        "items://books": "books [] 10",
        "items://books?tags=a,b": "books ['a', 'b'] 10",
        "items://books?page-size=2&x=1&tags=a%2Cb,c": "books ['a,b', 'c'] 2",
    }
    async with serve(text, mode=era) as client:
        templates = (await client.list_resource_templates()).resource_templates
        results = {uri: (await client.read_resource(uri)).contents[0].text for uri in reads}
        for uri in ("items://books/7?tags=a", "files:///etc/passwd"):
            with pytest.raises(MCPError) as missing:
                await client.read_resource(uri)
            assert missing.value.code == -32602
    assert [item.uri_template for item in templates] == ["files://{path*}", "items://{category}{?tags,page-size}"]
    assert results == reads


async def test_the_text_of_a_crash_stays_on_a_server_with_middleware(serve: Any) -> None:
    text = f"""{FASTMCP}
from fastmcp.server.middleware import Middleware
mcp = Server("demo")
mcp.add_middleware(Middleware())

@mcp.tool
def crash() -> str:
    raise ValueError("secret 1234")

@mcp.resource("data://one")
def one() -> str:
    raise ValueError("secret 1234")

@mcp.prompt
def ask() -> str:
    raise ValueError("secret 1234")
"""
    async with serve(text) as client:
        texts = [await call(client, "crash")]
        for request in (client.read_resource("data://one"), client.get_prompt("ask")):
            with pytest.raises(MCPError) as exc_info:
                await request
            texts.append(exc_info.value.message)
    assert all("internal error (reference" in line and "1234" not in line for line in texts)


async def test_a_tool_of_the_server_reports_what_does_not_exist(serve: Any) -> None:
    text = f"""{FASTMCP}
from fastmcp.server.transforms import PromptsAsTools
mcp = Server("demo")
mcp.add_transform(PromptsAsTools(mcp))
"""
    async with serve(text) as client:
        assert "Unknown prompt" in await call(client, "get_prompt", name="poem")


async def test_plain_functions_return_generators_and_coroutines(serve: Any) -> None:
    text = f"""{FASTMCP}
mcp = Server("demo")

async def double(number: int) -> int:
    return 2 * number

async def count_later():
    for number in (1, 2):
        yield number

@mcp.tool
def lines():
    return (line for line in ("a", "b"))

@mcp.tool
async def later_lines():
    return (line for line in ("a", "b"))

@mcp.tool
def doubled(number: int):
    return double(number)

@mcp.tool
def numbers():
    return count_later()
"""
    async with serve(text) as client:
        results = [await call(client, name) for name in ("lines", "later_lines", "numbers")]
        assert [json.loads(result) for result in results] == [["a", "b"], ["a", "b"], [1, 2]]
        assert await call(client, "doubled", number=4) == "8"


async def test_types_that_pydantic_builds_arrive_as_such(serve: Any) -> None:
    text = f"""{FASTMCP}
from datetime import date
from enum import Enum
from typing import Annotated
from pydantic import BaseModel, Field
mcp = Server("demo")

class Color(Enum):
    RED = "red"

class Car(BaseModel):
    color: Color
    built: date

@mcp.tool
def describe(car: Car, doors: Annotated[int, Field(ge=2)] = 4) -> str:
    return f"{{car.color.name}} {{car.built.year}} {{doors}}"
"""
    async with serve(text) as client:
        car = {"color": "red", "built": "2020-01-31"}
        assert await call(client, "describe", car=car) == "RED 2020 4"
        assert "doors" in await call(client, "describe", car=car, doors=1)


async def test_an_extension_intercepts_calls(serve: Any) -> None:
    text = f"""{FASTMCP}
from fastmcp.server.extensions import ServerExtension
from fastmcp.tools import ToolResult

class Closed(ServerExtension):
    identifier = "org.example/closed"

    async def intercept_tool_call(self, params, context, call_next):
        return ToolResult(content="closed")

mcp = Server("demo")
mcp.add_extension(Closed())

@mcp.tool(output_schema=None)
def say() -> str:
    return "open"
"""
    async with serve(text) as client:
        assert await call(client, "say") == "closed"


async def test_metadata_of_resource_and_prompt_results_arrives(serve: Any, era: str) -> None:
    text = f"""{FASTMCP}
from fastmcp.prompts import Message, PromptResult
from fastmcp.resources import ResourceContent, ResourceResult
mcp = Server("demo")

@mcp.resource("data://table")
def table() -> ResourceResult:
    return ResourceResult([ResourceContent("1", meta={{"row": 1}})], meta={{"rows": 1}})

@mcp.prompt()
def ask() -> PromptResult:
    return PromptResult([Message("Why?")], meta={{"team": "infra"}})
"""
    async with serve(text, mode=era) as client:
        resource = await client.read_resource("data://table")
        prompt = await client.get_prompt("ask")
    assert (resource.meta["rows"], resource.contents[0].meta) == (1, {"row": 1})
    assert prompt.meta["team"] == "infra"


async def test_a_completion_keeps_its_order_and_its_total(serve: Any, era: str) -> None:
    text = f"""{FASTMCP}
from mcp_types import Completion
mcp = Server("demo")

@mcp.prompt()
def poem(city: str) -> str:
    return city

@mcp.completion
def complete_city(reference, argument, context):
    return Completion(values=["Rome", "Bern"], total=250, has_more=True)
"""
    async with serve(text, mode=era) as client:
        reference = PromptReference(type="ref/prompt", name="poem")
        completion = (await client.complete(reference, {"name": "city", "value": "x"})).completion
    assert (completion.values, completion.total, completion.has_more) == (["Rome", "Bern"], 250, True)


async def test_a_rate_limiter_slows_the_start_and_does_not_stop_it(serve: Any) -> None:
    text = f"""{FASTMCP}
from fastmcp.server.middleware.rate_limiting import RateLimitingMiddleware
mcp = Server("demo")
mcp.add_middleware(RateLimitingMiddleware(max_requests_per_second=20, burst_capacity=2))

@mcp.resource("data://one")
def one() -> str:
    return "1"
"""
    async with serve(text) as client:
        assert [str(item.uri) for item in (await client.list_resources()).resources] == ["data://one"]


async def test_the_request_context_has_the_value_of_the_lifespan(serve: Any) -> None:
    text = f"""{FASTMCP}
from contextlib import asynccontextmanager

@asynccontextmanager
async def open_database(server):
    yield {{"database": "open"}}

mcp = Server("demo", lifespan=open_database)

@mcp.tool()
def look(ctx: Context) -> str:
    return ctx.request_context.lifespan_context["database"]
"""
    async with serve(text) as client:
        assert await call(client, "look") == "open"


async def test_the_title_of_a_form_reaches_the_user(serve: Any) -> None:
    text = f"""{FASTMCP}
from pydantic import BaseModel
mcp = Server("demo")

class Booking(BaseModel):
    date: str

@mcp.tool()
async def book(ctx: Context) -> str:
    return (await ctx.elicit("When?", Booking)).action
"""
    titles = []

    async def answer(_: Any, params: Any) -> ElicitResult:
        titles.append(params.requested_schema.get("title"))
        return ElicitResult(action="decline")

    async with serve(text, mode="legacy", elicitation_callback=answer) as client:
        await call(client, "book")
    assert titles == ["Booking"]


def test_the_examples_of_the_readme_are_the_same_through_the_bridge() -> None:
    examples = list_readme_examples("fastmcp")
    for example in examples:
        check_example(example)
    assert {example.outcome for example in examples} == {"same"}, examples

"""Servers of the official MCP SDK in a file."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import ElicitResult

from tests.kits.frameworks.example_files import list_readme_examples
from tests.kits.frameworks.server_examples import check_example
from tests.kits.frameworks.server_scenarios import *  # noqa: F403
from tests.kits.frameworks.server_scenarios import SDK, call

pytestmark = pytest.mark.filterwarnings("ignore:The .* capability is deprecated")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def kind() -> str:
    return SDK


async def test_middleware_of_the_server_sees_and_changes_calls(serve: Any) -> None:
    text = f"""{SDK}
from dataclasses import replace
mcp = Server("demo")

async def shout(ctx, call_next):
    if ctx.method != "tools/call":
        return await call_next(ctx)
    arguments = {{"word": ctx.params["arguments"]["word"].upper()}}
    return await call_next(replace(ctx, params={{**ctx.params, "arguments": arguments}}))

mcp.middleware.append(shout)

@mcp.tool()
def say(word: str) -> str:
    if word == "BAD":
        raise ToolError("say something else")
    return word

@mcp.resource("data://one")
def one() -> str:
    return "1"
"""
    async with serve(text) as client:
        assert await call(client, "say", word="hello") == "HELLO"
        assert "say something else" in await call(client, "say", word="bad")
        assert (await client.read_resource("data://one")).contents[0].text == "1"


async def test_the_logged_exception_of_a_crash_is_not_in_its_own_chain(
    serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"""{SDK}
mcp = Server("demo")

@mcp.tool()
def crash() -> str:
    raise ValueError("no")
"""
    async with serve(text) as client:
        await call(client, "crash")
    (info,) = [record.exc_info for record in caplog.records if record.exc_info]
    values: list[BaseException | None] = []
    error = info[1]
    # Follow the causes like a formatter of tracebacks.
    while error is not None:
        assert error not in values
        values.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert isinstance(values[0], ValueError)


async def test_an_extension_intercepts_calls(serve: Any) -> None:
    text = f"""{SDK}
from mcp.server.extension import Extension
from mcp_types import CallToolResult, TextContent

class Closed(Extension):
    identifier = "org.example/closed"
    async def intercept_tool_call(self, params, ctx, call_next):
        return CallToolResult(content=[TextContent(type="text", text="closed")])

mcp = Server("demo", extensions=[Closed()])

@mcp.tool(structured_output=False)
def say() -> str:
    return "open"
"""
    async with serve(text) as client:
        assert await call(client, "say") == "closed"


async def test_resolved_parameters_ask_the_user(serve: Any, era: str) -> None:
    text = f"""{SDK}
from typing import Annotated
from pydantic import BaseModel
from mcp.server.mcpserver import Elicit, Resolve
mcp = Server("demo")

class Size(BaseModel):
    size: str

async def ask_size(word: str) -> Size | Elicit[Size]:
    return Elicit(f"Size of {{word}}?", Size)

@mcp.tool()
async def order(word: str, chosen: Annotated[Size, Resolve(ask_size)]) -> str:
    return f"{{word}} {{chosen.size}}"
"""

    async def answer(*_: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"size": "XL"})

    async with serve(text, mode=era, elicitation_callback=answer) as client:
        assert await call(client, "order", word="tea") == "tea XL"


async def test_authentication_that_the_bridge_does_not_use_is_reported(
    serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"""{SDK}
from mcp.server.auth.settings import AuthSettings

class Verifier:
    async def verify_token(self, token): ...

auth = AuthSettings(
    issuer_url="https://a.example", resource_server_url="https://b.example", validate_token_resource=True
)
mcp = Server("demo", auth=auth, token_verifier=Verifier())
"""
    async with serve(text):
        assert "the authentication of the server 'demo' is not used" in caplog.text


def test_the_examples_of_the_readme_are_the_same_through_the_bridge() -> None:
    examples = list_readme_examples("mcp")
    for example in examples:
        check_example(example)
    assert {example.outcome for example in examples} == {"same"}, examples

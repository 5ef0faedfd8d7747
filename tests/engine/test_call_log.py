"""Each call is one line of the log at the level info; its arguments are logged at debug, redacted."""

from __future__ import annotations

import logging
import re
from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext, ToolCall, ToolError, ToolRegistry, tool
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge.middleware import Pipeline, Stage
from tests.kits.loops import BOTH_LOOPS


class Passing:
    """Middleware without an effect."""

    stage = Stage.OBSERVE

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: Any) -> Any:
        return await call_next(call, ctx)


def create_registry(**options: Any) -> ToolRegistry:
    registry = ToolRegistry(pipeline=Pipeline(**options))

    @tool(registry=registry)
    async def greet(name: str, password: str = "") -> str:
        """Greet."""
        if name == "unknown_user":
            raise ToolError("There is no such user.", code="unknown_user")
        if name == "bug":
            raise ZeroDivisionError
        return f"Hello {name}"

    @tool(registry=registry)
    async def greet_twice(name: str, ctx: CallContext) -> str:
        """Greet, through another tool."""
        return str((await ctx.invoke("greet", {"name": name})).output)

    @tool(registry=registry, input_schema={"type": "object"})
    async def unchecked(data: dict[str, Any]) -> None:
        """Accept anything."""

    @tool(registry=registry)
    async def wait() -> None:
        """Wait."""
        await anyio.sleep_forever()

    return registry


async def dispatch(registry: ToolRegistry, name: str, arguments: Any, client: str | None = None) -> Any:
    ctx = RunningCall()
    ctx.client = client
    return await registry.dispatch(ToolCall(id="1", name=name, arguments=arguments), ctx)


def list_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log lines of calls, without durations and random references."""
    lines = [record.getMessage() for record in caplog.records if record.levelno < logging.ERROR]
    return [re.sub(r"[0-9.]+ ms", "… ms", re.sub(r"reference [0-9a-f]{12}", "reference …", line)) for line in lines]


@pytest.fixture
def at_info(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "mcp_bridge.calls")
    return caplog


@BOTH_LOOPS
@pytest.mark.parametrize("middleware", [(), (Passing(),)], ids=["alone", "observed"])
async def test_a_call_is_one_line(middleware: Any, at_info: pytest.LogCaptureFixture) -> None:
    registry = create_registry(middleware=middleware)
    await dispatch(registry, "greet", {"name": "Ann"})
    await dispatch(registry, "greet", {"name": "unknown_user"}, "principal/ann")
    await dispatch(registry, "greet", {"name": "bug"}, "session/0123456789abcdef")
    await dispatch(registry, "greet", {"name": 1}, "session/")
    assert list_lines(at_info) == [
        "tool 'greet' succeeded after … ms",
        "tool 'greet' failed after … ms for 'principal/ann': unknown_user",
        "tool 'greet' failed after … ms for 'session/01234567': internal_error, reference …",
        "tool 'greet' failed after … ms for an anonymous client: invalid_arguments",
    ]


@BOTH_LOOPS
async def test_the_reference_is_that_of_the_traceback_and_of_the_clients_error(
    at_info: pytest.LogCaptureFixture,
) -> None:
    result = await dispatch(create_registry(), "greet", {"name": "bug"})
    (reference,) = re.findall(r"reference ([0-9a-f]+)", result.error_text)
    assert [reference in record.getMessage() for record in at_info.records] == [True, True]


@BOTH_LOOPS
async def test_a_cancelled_call_is_one_line(at_info: pytest.LogCaptureFixture) -> None:
    with anyio.move_on_after(0.01):
        await dispatch(create_registry(), "wait", {})
    assert list_lines(at_info) == ["tool 'wait' was cancelled after … ms"]


@BOTH_LOOPS
async def test_a_nested_call_has_a_separate_line(at_info: pytest.LogCaptureFixture) -> None:
    await dispatch(create_registry(), "greet_twice", {"name": "Ann"})
    assert list_lines(at_info) == ["tool 'greet' succeeded after … ms", "tool 'greet_twice' succeeded after … ms"]


async def test_arguments_are_logged_at_debug_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcp_bridge.calls")
    registry = create_registry()
    Bridge(registry).hide_secrets(["hush-hush-hush"])
    await dispatch(registry, "greet", {"name": "Ann hush-hush-hush", "password": "open sesame"})
    assert list_lines(caplog) == [
        "tool 'greet' succeeded after … ms",
        """tool 'greet' had the arguments {"name":"Ann [secret]","password":"[secret]"}""",
    ]


async def test_short_and_numeric_secrets_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcp_bridge.calls")
    registry = create_registry()
    arguments = {"password": "abc", "codes": {"otp": 1234, "tokens_left": 2}, "passwords": ["a", ""], "name": "abc"}
    await dispatch(registry, "unchecked", arguments)
    assert list_lines(caplog)[1] == (
        'tool \'unchecked\' had the arguments {"password":"[secret]","codes":{"otp":"[secret]","tokens_left":2},'
        '"passwords":["[secret]",""],"name":"abc"}'
    )


async def test_a_uri_is_logged_without_secrets_and_not_in_full_length(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mcp_bridge.calls")
    registry = create_registry()
    Bridge(registry).hide_secrets(["hush-hush-hush"])

    @registry.resource("note://{name}")
    def note(name: str) -> str:
        return name

    await RunningCall(caller=registry).read_resource(f"note://hush-hush-hush{'x' * 1000}")
    (line,) = list_lines(caplog)
    assert "note://[secret]xxx" in line
    assert len(line) < 300


async def test_arguments_that_are_no_json_do_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcp_bridge.calls")
    endless: dict[str, Any] = {"name": "Ann"}
    endless["self"] = endless
    assert (await dispatch(create_registry(), "greet", endless)).is_error
    assert list_lines(caplog)[0] == "tool 'greet' failed after … ms: invalid_arguments"


async def test_by_default_calls_are_not_logged_and_arguments_not_rendered(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "mcp_bridge.calls")
    await dispatch(create_registry(), "greet", {"name": "Ann"})
    assert caplog.records == []

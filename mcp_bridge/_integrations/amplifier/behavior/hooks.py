"""The suite of tests for hooks (HOOK_CONTRACT 1.0.0). They call every handler with sample events."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from mcp_bridge._contracts.handlers import is_async
from mcp_bridge._integrations.amplifier import events
from mcp_bridge._integrations.amplifier.behavior.module_tests import ModuleBehaviorTests, require, require_parameters
from mcp_bridge._integrations.amplifier.hook_decisions import parse_hook_result
from mcp_bridge._runtime.third_party import describe_error, resolve_awaitable

_COMMON_FIELDS = {"session_id": "test-session", "parent_id": None, "timestamp": "2020-02-29T12:00:00+00:00"}
_RESULT = {"success": True, "output": "sample", "error": None}
_INPUTS: tuple[dict[str, Any], ...] = (
    {"text": "sample"},
    {"command": "echo sample"},
    {"command": "rm -rf /"},
    {"file_path": "/etc/passwd", "content": "sample"},
)
"""The arguments in sample events. Hooks decide about them, but the calls are not made."""
_EVENTS: dict[str, dict[str, Any]] = {
    events.SESSION_START: {"config": {}},
    events.SESSION_END: {"stats": {}},
    events.PROMPT_SUBMIT: {"prompt": "sample"},
    events.TOOL_ERROR: {"error": {"message": "sample", "type": "ValueError"}},
    events.TOOL_POST: {"result": _RESULT, "tool_result": _RESULT, "tool_response": _RESULT},
    events.PROVIDER_REQUEST: {"provider": "sample", "model": "sample", "messages": []},
    events.PROVIDER_RESPONSE: {"provider": "sample", "model": "sample", "response": {}, "usage": {}},
}
_UNUSUAL_DATA: tuple[dict[str, Any], ...] = (
    {"tool_name": "", "tool_input": {}},
    {"tool_name": "sample", "tool_input": {"text": None, "command": ["ls"], "file_path": {"a": 1}, "unknown": True}},
)


class HookBehaviorTests(ModuleBehaviorTests):
    """The rules for every hook module."""

    mount_point = "hooks"

    async def test_handlers_are_async_functions_of_an_event_and_its_data(self) -> None:
        async with self.mount_module() as coordinator:
            for name, (event, handler) in self.list_mounted(coordinator).items():
                require(is_async(handler), f"'{name}' is not an `async def`")
                require_parameters(handler, event, {})

    async def test_handlers_return_a_decision(self) -> None:
        async with self.mount_module() as coordinator:
            for name, (event, handler) in self.list_mounted(coordinator).items():
                for data in _list_samples(event):
                    result = await resolve_awaitable(handler(event, {**_COMMON_FIELDS, **deepcopy(data)}))
                    require(result is not None, f"'{name}' returned None instead of a HookResult")
                    try:
                        parse_hook_result(result)
                    except Exception as error:
                        raise AssertionError(f"'{name}' returned no decision: {describe_error(error)}") from error

    async def test_handlers_raise_nothing_for_unusual_data(self) -> None:
        async with self.mount_module() as coordinator:
            for name, (event, handler) in self.list_mounted(coordinator).items():
                for unusual in _UNUSUAL_DATA:
                    data = {**_COMMON_FIELDS, **_EVENTS.get(event, {}), **unusual}
                    try:
                        await resolve_awaitable(handler(event, deepcopy(data)))
                    except Exception as error:
                        raise AssertionError(f"'{name}' raised {describe_error(error)} for {unusual!r}") from error

    async def test_its_cleanups_unregister_the_handlers(self) -> None:
        async with self.mount_module() as coordinator:
            hooks = coordinator.hooks
        handlers = hooks.list_handlers()
        require(not handlers, f"handlers of {', '.join(handlers)} remain after the cleanups")


def _list_samples(event: str) -> Sequence[dict[str, Any]]:
    fields = _EVENTS.get(event, {})
    if not event.startswith("tool:"):
        return [fields]
    return [{"tool_name": "sample", "tool_call_id": "1", "tool_input": arguments, **fields} for arguments in _INPUTS]

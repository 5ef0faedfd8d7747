"""Asking a stranger's object: a method may be synchronous, then it is run in a thread; what can be awaited is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from anyio import to_thread

from mcp_bridge.amplifier.strangers import settled
from mcp_bridge.schema.callables import is_async


async def asked(method: Callable[..., Any], *args: object) -> Any:
    """What a method comes to, whether or not it is async. Raises what it raises."""
    if is_async(method):
        return await method(*args)
    answer, error = await to_thread.run_sync(partial(_outcome, method, *args), abandon_on_cancel=True)
    if error is not None:
        raise error
    return await settled(answer)


def _outcome(method: Callable[..., Any], *args: object) -> tuple[Any, BaseException | None]:
    """Errors travel as values: a future cannot carry a StopIteration, and a SystemExit would end the loop."""
    try:
        return method(*args), None
    except BaseException as error:
        return None, error

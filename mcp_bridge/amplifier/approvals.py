"""What hooks have decided, carried out: texts for the model, messages for the user, questions to a person."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any, Literal, Protocol

import anyio

from mcp_bridge.amplifier.decisions import OPTIONS, injections
from mcp_bridge.amplifier.errors import ApprovalTimeoutError
from mcp_bridge.amplifier.events import APPROVAL_DENIED, APPROVAL_GRANTED, APPROVAL_REQUIRED
from mcp_bridge.amplifier.hooks import HookRegistry
from mcp_bridge.amplifier.models import ContextInjection, HookResult
from mcp_bridge.runtime.third_party import passes, settled

__all__ = ["OPTIONS", "grants", "process", "scope_of"]

logger = logging.getLogger("mcp_bridge.amplifier")

_SCOPES: dict[str, Literal["once", "session", "always"]] = {
    "allow": "once",
    "allow once": "once",
    "yes": "once",
    "approve": "once",
    "allow for session": "session",
    "allow for the session": "session",
    "allow for this session": "session",
    "allow for this session (same arguments)": "session",
    "allow always": "always",
    "allow always (same arguments)": "always",
}


class Session(Protocol):
    """What is needed of a coordinator."""

    hooks: HookRegistry
    approval_system: Any
    display_system: Any

    def get(self, mount_point: str, name: str | None = None) -> Any:
        """What is mounted."""
        ...


def grants(option: Any) -> bool:
    """Whether an option that was chosen allows; whatever is not known to allow denies."""
    return scope_of(option) != "deny"


def scope_of(option: Any) -> Literal["once", "session", "always", "deny"]:
    """What an option that was chosen allows: the call this once, in this session, always; or nothing."""
    return _SCOPES.get(option.strip().lower(), "deny") if isinstance(option, str) else "deny"


async def process(session: Session, result: HookResult, event: str, hook_name: str) -> HookResult:
    """Carry out what hooks have decided. The answer is `deny` where a person said no, else the result."""
    if result.user_message:
        await _whole(_show(session, result, hook_name), "a message could not be shown")
    for injection in injections(result):
        if not injection.ephemeral:
            await _whole(_remember(session, injection), "a text for the model could not be remembered")
    if result.action != "ask_user":
        return result
    return await _asked(session, result, event)


async def _whole(step: Awaitable[None], wrong: str) -> None:
    """One step, which keeps no other from being done."""
    try:
        await step
    except BaseException as error:
        if passes(error):
            raise
        logger.exception(wrong)


async def _show(session: Session, result: HookResult, hook_name: str) -> None:
    source = result.user_message_source or hook_name
    show = getattr(session.display_system, "show_message", None)
    if show is None:
        logger.info("%s: %s", source, result.user_message)
    else:
        await settled(show(result.user_message, result.user_message_level, source))


async def _remember(session: Session, injection: ContextInjection) -> None:
    context = session.get("context")
    if context is not None:
        await settled(context.add_message({"role": injection.role, "content": injection.content}))


async def _asked(session: Session, result: HookResult, event: str) -> HookResult:
    prompt = result.approval_prompt or "Allow this?"
    options = result.approval_options or list(OPTIONS)
    await session.hooks.emit(APPROVAL_REQUIRED, {"prompt": prompt, "event": event, "options": options})
    chosen, why = await _chosen(session.approval_system, result, prompt, options)
    if grants(chosen):
        await session.hooks.emit(APPROVAL_GRANTED, {"prompt": prompt, "choice": chosen})
        return HookResult(action="continue", data=result.data, suppress_output=result.suppress_output)
    await session.hooks.emit(APPROVAL_DENIED, {"prompt": prompt, "choice": chosen})
    return HookResult(action="deny", data=result.data, reason=why, suppress_output=result.suppress_output)


async def _chosen(system: Any, result: HookResult, prompt: str, options: list[str]) -> tuple[str, str]:
    """The option that a person chose, and why that denies if it does.

    It is the hook's default where nobody answers in time, and a denial where nobody can be asked.
    """
    if system is None:
        logger.warning("a hook asks, and there is nobody to ask: %s", prompt)
        return "deny", "A person has to allow this, and there is nobody to ask."
    try:
        with anyio.fail_after(result.approval_timeout):
            asked = system.request_approval(prompt, options, result.approval_timeout, result.approval_default)
            chosen = await settled(asked)
    except BaseException as error:
        if passes(error):
            raise
        if isinstance(error, TimeoutError) or type(error).__name__ == ApprovalTimeoutError.__name__:  # of any package
            return result.approval_default, "A person has to allow this, and nobody answered in time."
        logger.exception("a person could not be asked: %s", prompt)
        return "deny", "A person has to allow this, and could not be asked."
    return str(chosen), f"A person was asked and said: {chosen}"

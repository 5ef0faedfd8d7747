"""Checks the entries that a source offers, before the bridge publishes them.

The functions `check_*` return why an entry cannot be published. The functions `warn_*` log what users should fix.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_bridge._contracts.handlers import find_handler_problems
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._json_schema.headers import check_headers
from mcp_bridge._runtime.redaction import GUESSABLE

if TYPE_CHECKING:
    from mcp_bridge._contracts.tasks import TaskOptions

T = TypeVar("T")

logger = logging.getLogger("mcp_bridge.bridge")


def select_valid(entries: Iterable[T], check: Callable[[T], list[str]], problems: list[str]) -> list[T]:
    """Select the valid entries, and add the problems of the others to `problems`."""
    valid = []
    for entry in entries:
        entry_problems = check(entry)
        problems += entry_problems
        if not entry_problems:
            valid.append(entry)
    return valid


def check_headers_of_tool(entry: ToolEntry) -> list[str]:
    """Return the problems of the arguments that clients repeat in HTTP headers (`x-mcp-header` in their schemas)."""
    head = f"tool '{entry.name}' is not published: input schema"
    return [f"{head} {problem}" for problem in check_headers(entry.input_schema)]


def warn_about_notes(source: str, notes: Sequence[str]) -> None:
    """Log the first note about a source, and how many others there are."""
    if len(notes) > 1:
        logger.warning("source %r, note: %s (%d more: run `mcp-bridge validate`)", source, notes[0], len(notes) - 1)
    elif notes:
        logger.warning("source %r, note: %s", source, notes[0])


def check_resource(entry: ResourceEntry) -> list[str]:
    """Return why a resource cannot be published."""
    from mcp_bridge._json_schema.uri_templates import check_uri

    problems = check_uri(_encode_blanks(entry.uri))
    return [f"resource '{entry.uri}' is not published: {problem}" for problem in problems]


def check_resource_template(entry: ResourceTemplate) -> list[str]:
    """Return why a resource template cannot be published."""
    from mcp_bridge._json_schema.uri_templates import check_template, check_uri_start

    check = check_uri_start if entry.is_opaque else check_template
    head = f"resource template '{entry.uri_template}' is not published"
    return [f"{head}: {problem}" for problem in check(_encode_blanks(entry.uri_template))]


def _encode_blanks(uri: Any) -> Any:
    """Encode spaces in a URI. Some servers list URIs with spaces, and clients encode these in their requests."""
    return uri.replace(" ", "%20") if isinstance(uri, str) else uri


def warn_about_failing(tools: Iterable[ToolEntry]) -> None:
    """Log why every call of a tool will fail."""
    for tool in tools:
        for problem in find_handler_problems(tool.handler):
            logger.warning("tool '%s': every call will fail: %s", tool.name, problem)


def warn_about_tasks(tools: Iterable[ToolEntry], tasks: TaskOptions | None) -> None:
    """Log the tools that require tasks, unless tasks are enabled."""
    if tasks is not None:
        return
    for tool in tools:
        if tool.tasks is not None and tool.tasks.mode == "required":
            logger.warning(
                "tool '%s' requires tasks, which are not enabled, so its calls are ordinary ones. "
                "Write `tasks: {}` in the settings",
                tool.name,
            )


def warn_about_short_secrets(secrets: Iterable[str]) -> None:
    """Log the number of short secrets. Clients can guess them, and the shortest are not redacted."""
    short = sum(len(secret) < GUESSABLE for secret in secrets)
    if short:
        from mcp_bridge._runtime.secret_forms import MIN_LENGTH

        logger.warning(
            "secrets with fewer than %d characters: %d. Clients can guess them with a tool that returns its input, "
            "and those with fewer than %d are not redacted. Use longer ones",
            GUESSABLE,
            short,
            MIN_LENGTH,
        )

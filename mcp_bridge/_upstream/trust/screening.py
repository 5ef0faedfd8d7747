"""Screens the texts of upstreams, so models get no text users cannot see.

Escape sequences of terminals, control characters, and characters that are invisible or change the direction of text
are removed. HTML comments are made visible, because clients do not show them. The texts are descriptions, titles and
names, also in schemas, and all texts in metadata, annotations and icons. Where removing characters would change a
meaning, as in names of properties, `find_hidden_text` finds them, and the entry is not published.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from mcp_bridge._contracts.jsonrpc import RpcError
from mcp_bridge._contracts.prompt import PromptArgument, PromptEntry
from mcp_bridge._contracts.question import Form, Link, Question, Sampling
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.server_info import ServerInfo
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._json_schema.size_limits import SizeLimits

MAX_TEXT = 8 * 1024
"""The maximum number of characters of one text."""
MAX_LINE = 300
"""The maximum number of characters of a text that is part of a message or a state of the bridge."""
SCHEMA_LIMITS = SizeLimits(size=256 * 1024, depth=64, nodes=5_000)
"""The maximum numbers of characters, levels and values of a schema."""
META_LIMITS = SizeLimits(size=1024 * 1024, depth=64, nodes=5_000)
"""The limits of the metadata and the icons of an entry. Icons may be data URIs, so they are larger."""
SAMPLING_LIMITS = SizeLimits(size=1024 * 1024, depth=64, nodes=20_000)
"""The limits of a sampling request with its images. Screening so many characters takes up to 0.3 seconds."""
_MAX_SCREENED = 16
"""The maximum length of a text that is screened, in multiples of the limit to which it is truncated."""
_TRUNCATED = " [truncated]"
_NO_ESCAPES, _NO_CONTROLS = "escape sequences were removed", "control characters were removed"
_NO_INVISIBLE, _VISIBLE_COMMENTS = "invisible characters were removed", "HTML comments were made visible"
_TRUNCATED_TEXT = "a text was truncated to"
SCREENING_NOTES = (_NO_ESCAPES, _NO_CONTROLS, _NO_INVISIBLE, _VISIBLE_COMMENTS, _TRUNCATED_TEXT)
"""The beginnings of the notes of this module about texts that clients see in another form."""
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x9b[0-?]*[ -/]*[@-~]"  # control sequences (ECMA-48, 5.4)
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # strings of commands (5.6)
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_JOINERS = re.compile(
    r"(?<=[\u0300-\u1fff])[\u200c\u200d](?=[^\W\d_A-Za-z])|(?<=[^\x00-\u2029])\u200d(?=[^\x00-\u20ff])"
)
"""Zero-width joiners that have a meaning: in scripts such as Persian and Devanagari, and in emoji."""
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    "|(?<![0-9#*])(?<=[\x00-\x7f\ufe00-\ufe0f])[\ufe00-\ufe0f]"
)
"""Characters without a shape, such as tags (U+E0000 and up), and variation selectors that select nothing."""
_BREAKS = re.compile("\r\n?|[\u2028\u2029]")
_COMMENT = re.compile("<!--")
_SCREENED_KEYS = frozenset({"title", "description", "$comment"})
"""The keywords of a schema that are only text for readers. Others have a meaning that must not change."""

T = TypeVar("T", ToolEntry, ResourceEntry, ResourceTemplate, PromptEntry)
R = TypeVar("R", ResourceEntry, ResourceTemplate)


@dataclass(slots=True)
class TextScreen:
    """Screens texts.

    Attributes:
        limit: The maximum number of characters of a text. Longer ones are truncated.
        changes: The kinds of changes by the places of the texts, such as `tool 'send'`.
    """

    limit: int = MAX_TEXT
    changes: dict[str, list[str]] = field(default_factory=dict)

    def screen_tool(self, tool: ToolEntry) -> ToolEntry:
        """Return a tool with screened texts."""
        place = f"tool '{tool.name}'"
        return replace(
            self._screen_entry(tool, place),
            input_schema=self.screen_schema(tool.input_schema, f"{place}, input schema"),
            output_schema=self.screen_schema(tool.output_schema, f"{place}, output schema"),
            annotations=self._screen_data(tool.annotations, place),
        )

    def screen_resource(self, resource: R) -> R:
        """Return a resource or a resource template with screened texts."""
        if isinstance(resource, ResourceTemplate):
            place = f"resource template '{resource.uri_template}'"
        else:
            place = f"resource '{resource.uri}'"
        return replace(
            self._screen_entry(resource, place),
            name=self.screen_text(resource.name, place),
            annotations=self._screen_data(resource.annotations, place),
        )

    def screen_prompt(self, prompt: PromptEntry) -> PromptEntry:
        """Return a prompt with screened texts."""
        place = f"prompt '{prompt.name}'"
        arguments = [
            PromptArgument(
                argument.name,
                self.screen_text(argument.description, f"{place}, argument '{argument.name}'"),
                argument.required,
                self._screen_optional(argument.title, f"{place}, argument '{argument.name}'"),
            )
            for argument in prompt.arguments
        ]
        return replace(self._screen_entry(prompt, place), arguments=arguments)

    def screen_server(self, info: ServerInfo) -> ServerInfo:
        """Return the description of a server with screened texts."""
        return replace(
            info,
            title=self._screen_optional(info.title, "server"),
            instructions=self._screen_optional(info.instructions, "instructions"),
            description=self._screen_optional(info.description, "server"),
        )

    def screen_text(self, text: str, place: str) -> str:
        """Return a text without invisible parts, and note the kinds of changes at `place`."""
        # Nearly all texts are plain ASCII, so check that first.
        if text.isascii() and text.isprintable() and len(text) <= self.limit and "<!--" not in text:
            return text
        visible_text, kinds = _screen(text, self.limit)
        self._add_changes(place, kinds)
        return visible_text

    def list_changes(self) -> list[str]:
        """Return a line for each place with changed texts."""
        return [f"{place}: {' and '.join(kinds)}" for place, kinds in self.changes.items()]

    def _screen_entry(self, entry: T, place: str) -> T:
        return replace(
            entry,
            description=self.screen_text(entry.description, place),
            title=self._screen_optional(entry.title, place),
            icons=self._screen_data(entry.icons, f"{place}, icons"),
            meta=self._screen_data(entry.meta, f"{place}, _meta"),
        )

    def _screen_optional(self, text: str | None, place: str) -> str | None:
        return self.screen_text(text, place) if isinstance(text, str) else None

    def _screen_data(self, value: Any, place: str) -> Any:
        """Return a JSON value with screened texts, which are not truncated. Its size has been checked (META_LIMITS)."""
        screen = TextScreen(limit=META_LIMITS.size)
        visible_value = screen.screen_values(value)
        for kinds in screen.changes.values():
            self._add_changes(place, kinds)
        return visible_value

    def _add_changes(self, place: str, new_changes: Sequence[str]) -> None:
        if new_changes:
            changes = self.changes.setdefault(place, [])
            changes += [change for change in new_changes if change not in changes]

    def screen_schema(self, schema: Any, place: str) -> Any:
        """Return a schema with screened texts. Its depth has been checked (SCHEMA_LIMITS)."""
        if isinstance(schema, Mapping):
            screened: dict[str, Any] = {}
            for key, value in schema.items():
                if key in _SCREENED_KEYS and isinstance(value, str):
                    screened[key] = self.screen_text(value, place)
                else:
                    screened[key] = self.screen_schema(value, place)
            return screened
        if isinstance(schema, list):
            return [self.screen_schema(item, place) for item in schema]
        return schema

    def screen_values(self, value: Any) -> Any:
        """Return a JSON value with screened texts and keys. Its depth has been checked."""
        if isinstance(value, str):
            return self.screen_text(value, "")
        if isinstance(value, Mapping):
            return {self.screen_text(key, ""): self.screen_values(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.screen_values(item) for item in value]
        return value


def shorten_text(text: str, length: int = MAX_LINE) -> str:
    """Return a text of an upstream on one line, screened and short, for messages and states of the bridge."""
    line = " ".join(TextScreen().screen_text(text[:MAX_TEXT], "").split())
    if len(line) <= length:
        return line
    return line[: length - len(_TRUNCATED)] + _TRUNCATED


def screen_question(question: Question, server: str) -> Question:
    """Return a question with screened texts. Its message begins with the name of the server.

    Raises ValueError if the question is too large, if a URL looks like one of another host, or if names or values have
    hidden texts.
    """
    screen = TextScreen()
    if isinstance(question, Link):
        # Users may take the user name in https://bank.example@evil.example for the host.
        if "@" in urlsplit(question.url).netloc:
            raise ValueError("the URL must not have a user before its host")
        return replace(question, message=f"[{server}] {screen.screen_text(question.message, '')}")
    if isinstance(question, Form):
        schema = question.schema
        excess = SCHEMA_LIMITS.describe_excess(schema)
        if excess:
            raise ValueError(f"the form is too large: {excess}")
        if find_hidden_text(schema) is not None:
            raise ValueError("the form has invisible characters in names or values")
        message = f"[{server}] {screen.screen_text(question.message, '')}"
        # Imported late, because a start needs no validator.
        from mcp_bridge._json_schema.schema_checks import make_checkable

        # Keywords that cannot be checked are left out. The server itself checks the answer by the whole schema.
        return replace(question, message=message, schema=make_checkable(screen.screen_schema(schema, "")))
    if isinstance(question, Sampling):
        return _screen_sampling(question)
    return question


def _screen_sampling(question: Sampling) -> Sampling:
    """Return a sampling request with screened texts. They are not truncated, because the model works on them."""
    texts = [question.messages, question.system_prompt]
    values = [
        question.tools, question.tool_choice, question.stop_sequences, question.model_preferences, question.metadata,
        question.include_context,
    ]  # fmt: skip
    excess = SAMPLING_LIMITS.describe_excess([texts, values])
    if excess:
        raise ValueError(f"the sampling request is too large: {excess}")
    if find_hidden_text(values) is not None:
        raise ValueError("the sampling request has invisible characters in names or values")
    screen = TextScreen(limit=SAMPLING_LIMITS.size)
    messages, system_prompt = screen.screen_values(texts)
    tools = screen.screen_schema(question.tools, "")
    return replace(question, messages=messages, system_prompt=system_prompt, tools=tools)


def screen_error(error: RpcError) -> RpcError:
    """Return the error response of a server with a screened message."""
    return RpcError(error.code, TextScreen().screen_text(error.message, ""), error.data)


def find_hidden_text(value: Any) -> str | None:
    """Return a text with invisible characters that has a meaning, so they cannot be removed; None without one.

    In a schema, such texts are the names of properties, and values such as those of `enum` and `default`.
    """
    # Each value is on the stack with whether it is only text for readers.
    stack: list[tuple[Any, bool]] = [(value, False)]
    while stack:
        node, is_for_readers = stack.pop()
        if isinstance(node, str):
            if not is_for_readers and not node.isascii() and _INVISIBLE.search(_JOINERS.sub("", node)):
                return node
        elif isinstance(node, Mapping):
            for key, item in node.items():
                stack += ((key, False), (item, key in _SCREENED_KEYS))
        elif isinstance(node, Sequence):
            stack += ((item, False) for item in node)
    return None


def _screen(text: str, limit: int) -> tuple[str, list[str]]:
    """Return a screened text of at most `limit` characters, and the kinds of changes."""
    changes = []
    is_long = len(text) > _MAX_SCREENED * limit
    text = _BREAKS.sub("\n", text[: _MAX_SCREENED * limit])
    for pattern, change in ((_ESCAPES, _NO_ESCAPES), (_CONTROLS, _NO_CONTROLS)):
        text, count = pattern.subn("", text)
        if count:
            changes.append(change)
    visible_text = _remove_invisible(text)
    if visible_text != text:
        text = visible_text
        changes.append(_NO_INVISIBLE)
    text, count = _COMMENT.subn("&lt;!--", text)
    if count:
        changes.append(_VISIBLE_COMMENTS)
    if is_long or len(text) > limit:
        text = text[: limit - len(_TRUNCATED)] + _TRUNCATED
        changes.append(f"{_TRUNCATED_TEXT} {limit} characters")
    return text, changes


def _remove_invisible(text: str) -> str:
    """Remove invisible characters, but keep joiners that have a meaning."""
    parts = []
    end = 0
    for joiner in _JOINERS.finditer(text):
        parts += [_INVISIBLE.sub("", text[end : joiner.start()]), joiner.group()]
        end = joiner.end()
    parts.append(_INVISIBLE.sub("", text[end:]))
    return "".join(parts)

"""The policy `redact`: replaces text that matches patterns, in results, arguments, the log and the audit trail.

Most calls contain nothing to redact. So all patterns are combined into one, and all texts of a result into one text,
which is searched once (`PatternRedaction.may_match`). Only if that matches, each text is redacted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from mcp_bridge._contracts.content import Content
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.policy import CallNext, Forecast, Layer, Stage
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._policies.base import CallPolicy, Patterns, PolicyServices, add_single_schema, to_tuple
from mcp_bridge._policies.secret_patterns import PATTERNS, expand_names, redact_card_numbers
from mcp_bridge._protocol.wire.values import to_plain
from mcp_bridge._version import DISTRIBUTION

HINT = f"Run `pip install '{DISTRIBUTION}[redact]'`"
_CARD = "credit_card"
_FIXED_FIELDS = frozenset({"annotations", "icons", "mime_type", "role"})
"""Fields of content with values from the protocol, or without text."""
_URI_CHARACTERS = "%/:?#@!$&'()*+,;=~"
"""The characters that stay as they are in a redacted URI. Others, such as the brackets of the mark, are escaped."""
_MIN_NUMBER = 10**7
"""Numbers below this are not searched: they have too few digits to be secrets."""
_ANCHOR = re.compile(r"[\^$]|\\[Az]")
"""Anchors, which match the beginning or the end of a text. The `^` of a class, as in `[^a]`, is not an anchor, so it is
removed before the search."""


def _compile_pattern(pattern: str | bytes) -> Any:
    """Compile a pattern with RE2, whose time is linear in the text. Raises ValueError; ConfigError without RE2."""
    try:
        import re2
    except ImportError:
        raise ConfigError("the policy `redact` needs the package google-re2", hint=HINT) from None
    options = re2.Options()
    # RE2 would write errors to stderr.
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f"expected a pattern of RE2 (no look-around, no back-references): {reason}") from None


def _check_custom(custom: dict[str, str]) -> dict[str, str]:
    for pattern in custom.values():
        if _compile_pattern(pattern).search("") is not None:
            raise ValueError("expected patterns that do not match the empty text")
    return custom


class PatternRedaction:
    """Replaces matches of patterns with `[redacted NAME]`. `patterns` has the patterns by name."""

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._any = _compile_pattern("|".join(f"(?:{pattern})" for pattern in patterns.values()).encode())
        self._patterns = [(name, _compile_pattern(pattern)) for name, pattern in patterns.items()]
        self._is_anchored = any(_ANCHOR.search(pattern.replace("[^", "")) for pattern in patterns.values())

    def may_match(self, *values: Any) -> bool:
        """Return whether JSON-ready data may have a match. If this returns False, there is none.

        All texts are joined and searched together. This is not possible with an anchor, which may match one of the
        texts but not the joined text.
        """
        if self._is_anchored:
            return True
        texts: list[str] = []
        for value in values:
            _collect_texts(value, texts)
        return bool(texts) and self._any.search("\n".join(texts).encode(errors="replace")) is not None

    def redact_text(self, text: str) -> str:
        """Return the text without matches; the same object if it has none."""
        # RE2 does not accept lone surrogates.
        data = text.encode(errors="replace")
        if self._any.search(data) is None:
            return text
        text = data.decode()
        for name, pattern in self._patterns:
            mark = f"[redacted {name}]"
            if name == _CARD:
                text = redact_card_numbers(text, mark)
            else:
                text = pattern.sub(lambda _, mark=mark: mark, text)
        return text

    def redact_value(self, value: Any) -> Any:
        """Return JSON-ready data, or a block of content, with all matches replaced, also those in keys."""
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, Mapping):
            return self._redact_mapping(value)
        if isinstance(value, list | tuple):
            return [self.redact_value(item) for item in value]
        if isinstance(value, int) and abs(value) >= _MIN_NUMBER:
            digits = str(value)
            text = self.redact_text(digits)
            return value if text == digits else text
        return self._redact_block(value)

    def redact_result(self, result: ToolResult, uri: str = "") -> ToolResult:
        """Return a result with all matches replaced in its output, content, error and metadata.

        Images, audio and other bytes stay unchanged, and so does `uri`, the address of the resource that the client
        reads, because the client has sent it.
        """
        content: Any = result.content
        if content is None and not self.may_match(result.output, result.error, result.meta):
            return result
        if isinstance(content, str | bytes | Content):
            content = self._redact_block(content)
        elif content is not None:
            content = tuple(self._redact_block(block, uri) for block in content)
        output = self.redact_value(result.output)
        error = self.redact_value(result.error)
        meta = self.redact_value(result.meta)
        is_same = output == result.output and content == result.content
        if is_same and error == result.error and meta == result.meta:
            return result
        return replace(result, output=output, content=content, error=error, meta=meta, encoded=None)

    def _redact_mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        """Redact keys and values. Keys that become equal are numbered."""
        result: dict[str, Any] = {}
        for key, item in value.items():
            text = name = self.redact_text(str(key))
            number = 1
            while name in result:
                number += 1
                name = f"{text} {number}"
            result[name] = self.redact_value(item)
        return result

    def _redact_block(self, block: Any, known_uri: str = "") -> Any:
        if isinstance(block, str):
            return self.redact_text(block)
        if not isinstance(block, Content):
            return block
        changes: dict[str, Any] = {}
        for field in fields(block):
            value = getattr(block, field.name)
            if field.name in _FIXED_FIELDS or (field.name == "uri" and value == known_uri):
                continue
            new_value = self.redact_value(value)
            if new_value == value:
                continue
            if field.name == "uri":
                new_value = quote(new_value, safe=_URI_CHARACTERS)
            changes[field.name] = new_value
        return replace(block, **changes) if changes else block


class RedactPolicy(CallPolicy):
    """Replace text that matches patterns with `[redacted NAME]`. Requires the extra `redact`."""

    checks_calls = True
    name = "redact"
    stage = Stage.OBSERVE
    may_ask = False

    patterns: Annotated[Patterns, AfterValidator(expand_names)] = Field(
        default=("secrets",),
        validate_default=True,
        description="Names of patterns: `secrets` for all those of common keys and tokens, or some of "
        f"{', '.join(f'`{name}`' for name in PATTERNS)}.",
    )
    custom: Annotated[dict[str, str], AfterValidator(_check_custom)] = Field(
        default={}, description="Further patterns by name, in the syntax of RE2."
    )
    apply_to: Annotated[tuple[Literal["results", "arguments"], ...], BeforeValidator(to_tuple)] = Field(
        default=("results",),
        json_schema_extra=add_single_schema,
        description="What is redacted: `results` (also errors, progress and log messages to clients) and `arguments` "
        "(the tool gets the redacted ones, and redacted `_meta`). The log and the audit trail are always redacted.",
    )

    @model_validator(mode="after")
    def _require_patterns(self) -> Self:
        if not self.patterns and not self.custom:
            raise ValueError("expected `patterns` or `custom`, found neither")
        return self

    _redaction: PatternRedaction = PrivateAttr()

    def use_services(self, services: PolicyServices) -> None:
        """Redact the log and the audit trail too. Raises ConfigError if RE2 is not installed."""
        self._redaction = PatternRedaction({name: PATTERNS[name] for name in self.patterns} | self.custom)
        services.redactor.add_substitution(self._redaction.redact_text)

    def bind(self, entry: Any) -> Layer | None:
        """Return a layer for entries that match."""
        if not self.applies_to_entry(entry):
            return None
        return partial(self._redact_call, self._redaction)

    async def _redact_call(
        self, redaction: PatternRedaction, call: ToolCall, ctx: RunningCall, call_next: CallNext
    ) -> ToolResult:
        """Return the redacted result, or error, of the call with redacted arguments."""
        if not self.applies_to_call(call, ctx):
            return await call_next(call, ctx)
        if "arguments" in self.apply_to:
            call = _redact_arguments(redaction, call)
            if ctx.meta and redaction.may_match(ctx.meta):
                ctx.meta = redaction.redact_value(ctx.meta)
        if "results" not in self.apply_to:
            return await call_next(call, ctx)
        # Progress and log messages pass the filter. In a nested call, the data of a log message may be any object.
        ctx.add_filter(lambda data: redaction.redact_value(to_plain(data)))
        uri = call.name if call.kind == "resource" else ""
        return redaction.redact_result(await call_next(call, ctx), uri)

    async def predict(self, entry: Any, call: ToolCall, ctx: RunningCall) -> Forecast:
        """Predict that the call passes."""
        if not self.applies_to_call(call, ctx):
            return Forecast("passes")
        if "arguments" in self.apply_to:
            call = _redact_arguments(self._redaction, call)
        return Forecast("passes", f"redacts {' and '.join(self.apply_to)}", call)


def _redact_arguments(redaction: PatternRedaction, call: ToolCall) -> ToolCall:
    try:
        if not redaction.may_match(call.arguments):
            return call
        arguments = redaction.redact_value(call.arguments)
    except RecursionError:
        # A caller in process can pass data of too many levels, or that contains itself. `to_plain` raises Unreadable.
        arguments = redaction.redact_value(to_plain(call.arguments))
    return call if arguments == call.arguments else replace(call, arguments=arguments)


def _collect_texts(value: Any, texts: list[str]) -> None:
    """Add the texts of JSON-ready data that `PatternRedaction.redact_value` searches."""
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict | Mapping):
        for key, item in value.items():
            texts.append(str(key))
            _collect_texts(item, texts)
    elif isinstance(value, list | tuple):
        for item in value:
            _collect_texts(item, texts)
    elif isinstance(value, int) and abs(value) >= _MIN_NUMBER:
        texts.append(str(value))

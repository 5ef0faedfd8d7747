"""The steps and the result of a chain (tool_use API, "ChainStep" and "ChainResult")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any

from mcp_bridge._contracts.tool_use_results import Result

_LONGEST_WAIT = 60.0
"""The longest wait between two attempts of a step, in seconds."""
_MAX_DOUBLINGS = 20
"""The maximum number of times that the wait doubles: more can overflow a float."""
_EXTENSION_DEFAULTS: dict[str, Any] = {
    "defaults": {}, "attempts": 1, "backoff": 1.0, "timeout": None, "continue_on_failure": False,
    "omits_context": False,
}  # fmt: skip
"""The fields that the tool_use API does not have, with their defaults."""


@dataclass
class ChainStep:
    """One step of a chain.

    Attributes:
        tool_name: The tool to call.
        input_mapping: Maps input keys of the tool to context keys, which may be dotted paths.
        defaults: Values of input keys that are not mapped, or whose mapped value is missing.
        output_key: The context key for the output. Without one, the keys of a dict are merged into the context.
        attempts: The maximum number of attempts. A failed attempt may have had effects.
        backoff: Seconds before the second attempt. The time doubles before each further one.
        timeout: Seconds for each attempt; None for the limit of the tool only.
        continue_on_failure: Whether the chain continues if this step fails.
        omits_context: Whether a step without mapped values and defaults gets no input, instead of the whole context.

    >>> from mcp_bridge.tool_use import ChainStep
    >>> step = ChainStep("greet", {"name": "user.name"}, output_key="greeting", defaults={"language": "en"})
    >>> step.build_input({"user": {"name": "Ada"}})
    {'name': 'Ada', 'language': 'en'}
    """

    tool_name: str
    input_mapping: dict[str, str] = field(default_factory=dict)
    output_key: str = ""
    _: KW_ONLY
    defaults: dict[str, Any] = field(default_factory=dict)
    attempts: int = 1
    backoff: float = 1.0
    timeout: float | None = None
    continue_on_failure: bool = False
    omits_context: bool = False

    @property
    def takes_context(self) -> bool:
        """Whether the input is the whole context."""
        return not (self.input_mapping or self.defaults or self.omits_context)

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, got {self.attempts}")
        if self.backoff < 0:
            raise ValueError(f"backoff must not be negative, got {self.backoff}")
        if self.timeout is not None and self.timeout <= 0:
            raise ValueError(f"timeout must be positive or None, got {self.timeout}")

    def to_dict(self) -> dict[str, Any]:
        """Return this step as a dictionary: the fields of the tool_use API, and other fields without default values."""
        fields = {}
        for key, value in asdict(self).items():
            if key not in _EXTENSION_DEFAULTS or value != _EXTENSION_DEFAULTS[key]:
                fields[key] = value
        return fields

    def build_input(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Return this step's input: mapped values and defaults, or a shallow copy of the whole context."""
        if self.takes_context:
            return dict(context)
        data = {target: resolve_path(context, source) for target, source in self.input_mapping.items()}
        for name, value in self.defaults.items():
            if data.get(name) is None:
                data[name] = value
        return data

    def store_output(self, data: Any, context: dict[str, Any]) -> None:
        """Store this step's output in the context: under its key, else merged if it is a dict."""
        if self.output_key:
            context[self.output_key] = data
        elif isinstance(data, dict):
            context.update(data)

    def list_waits(self) -> Iterator[float]:
        """Yield the seconds before each attempt; zero before the first."""
        yield 0.0
        for attempt in range(self.attempts - 1):
            yield min(self.backoff * 2 ** min(attempt, _MAX_DOUBLINGS), _LONGEST_WAIT)


@dataclass
class ChainResult:
    """The result of a chain. `duration_ms` is the wall-clock time of all steps in milliseconds.

    >>> from mcp_bridge.tool_use import ChainResult
    >>> ChainResult(context={"sum": 3}).to_dict()["context"]
    {'sum': 3}
    """

    success: bool = True
    context: dict[str, Any] = field(default_factory=dict)
    step_results: list[Result] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    duration_ms: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return this result, with the results of its steps, as a dictionary."""
        return {
            "success": self.success,
            "context": dict(self.context),
            "step_results": [result.to_dict() for result in self.step_results],
            "errors": list(self.errors),
            "duration_ms": round(self.duration_ms, 3),
        }


def resolve_path(context: Any, path: str) -> Any:
    """Return the value at a dotted path, or None. A key that itself contains dots takes precedence."""
    if not isinstance(context, Mapping):
        return None
    if path in context:
        return context[path]
    head, dot, tail = path.partition(".")
    if dot and head in context:
        return resolve_path(context[head], tail)
    return None

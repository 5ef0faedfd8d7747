"""The frame of the settings file as pydantic models; the descriptions are the settings reference.

This file alone imports pydantic, and is imported late: pydantic is most of the cost of reading settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PrivateAttr,
    SecretStr,
    ValidationError,
    WithJsonSchema,
)
from pydantic.json_schema import SkipJsonSchema, models_json_schema
from pydantic_core import ErrorDetails, PydanticCustomError

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.settings.document import Document
from mcp_bridge.settings.positions import Place

M = TypeVar("M", bound=BaseModel)

_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {"": 1, "b": 1} | {
    f"{letter}{suffix}": base**power
    for suffix, base in (("b", 1000), ("ib", 1024))
    for power, letter in enumerate("kmg", start=1)
}
_DURATION_PATTERN = r"^\s*\d{1,9}(\.\d{1,9})?\s*(ms|s|m|h)?\s*$"
_SIZE_PATTERN = r"^\s*\d{1,15}(\.\d{1,9})?\s*([kKmMgG]?[iI]?[bB])?\s*$"
_KEY_BYTES = 32
_AMOUNT = re.compile(r"\s*(?P<number>[0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(?P<unit>[A-Za-z]*)\s*")


def _amount(value: Any, units: Mapping[str, float], expected: str) -> Any:
    """The number that text with a unit stands for; numbers pass."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    match = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if match is None or match["unit"].lower() not in units:
        raise ValueError(f"expected {expected}")
    return float(match["number"]) * units[match["unit"].lower()]


def _seconds(value: Any) -> Any:
    return _amount(value, _SECONDS, "seconds, or text such as '90s', '5m' or '1h'")


def _bytes(value: Any) -> Any:
    amount = _amount(value, _BYTES, "bytes, or text such as '512 KiB', '1 MiB' or '2MB'")
    return int(amount) if isinstance(value, str) else amount


def _whole(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a whole number")  # noqa: TRY004 - pydantic gathers only ValueError
    return value


def _listed(value: Any) -> Any:
    """Text as a list, parted by commas or blanks, and without empty entries: those of variables that are not set."""
    if isinstance(value, str):
        return tuple(part for part in re.split(r"[,\s]+", value) if part)
    return tuple(part for part in value if part != "") if isinstance(value, list) else value


def _strong(key: SecretStr) -> SecretStr:
    if len(key.get_secret_value().encode()) < _KEY_BYTES:
        raise PydanticCustomError("short_key", "too short")  # told in problems.py, where no secret can get into it
    return key


Whole = Annotated[int, BeforeValidator(_whole)]
Keys = Annotated[
    tuple[Annotated[SecretStr, AfterValidator(_strong)], ...],
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}),
]
Duration = Annotated[
    float,
    BeforeValidator(_seconds),
    Field(gt=0, allow_inf_nan=False),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": _DURATION_PATTERN}]}
    ),
]
Size = Annotated[
    int,
    BeforeValidator(_bytes),
    Field(ge=1),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _SIZE_PATTERN}]}),
]


class Frame(BaseModel):
    """What every model here shares: frozen, unknown keys refused, no values in pydantic's own texts."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a part of the settings was written, for errors that are found later."""

    document: Document
    where: Place


class SourceSettings(Frame):
    """One place where tools come from."""

    type: str = Field(min_length=1, description="The type of the source, such as `python`; it decides the options.")
    name: str | None = Field(default=None, min_length=1, description="The name of the source in logs and errors.")
    prefix: str | None = Field(default=None, description="Put before the name of each tool, joined by two underscores.")
    alias: dict[str, str] = Field(default={}, description="Published names of tools: tool name to published name.")
    include: tuple[str, ...] = Field(
        default=(), description="Patterns (`*`, `?`) of the names of tools to publish; none means all."
    )
    exclude: tuple[str, ...] = Field(
        default=(), description="Patterns (`*`, `?`) of the names of tools to leave out; they win over `include`."
    )
    tags: tuple[str, ...] = Field(default=(), description="Publish only tools with one of these tags; none means all.")
    match_all_tags: bool = Field(default=False, description="Publish only tools that have all of `tags`.")
    options: SkipJsonSchema[dict[str, Any]] = Field(
        default={}, repr=False, description="The other keys: the raw options of this type, see `options()`."
    )
    origin: SkipJsonSchema[InstanceOf[Origin] | None] = Field(
        default=None, repr=False, exclude=True, description="Where this source was written."
    )


class ToolLimitSettings(Frame):
    """What one tool may take, where that is not what all may."""

    timeout: Duration | None = Field(default=None, description="How long one call of it may take.")
    concurrency: Whole | None = Field(default=None, ge=1, le=100_000, description="How many calls of it run at once.")


class LimitSettings(Frame):
    """How much one call, and all of them, may take."""

    timeout: Duration = Field(
        default=60.0, description="How long one call may take, in seconds or as text such as `90s` or `5m`."
    )
    threads: Whole = Field(
        default=32,
        ge=1,
        le=1024,
        description="The number of threads for synchronous tools, so many of them run at once.",
    )
    concurrency: Whole = Field(default=64, ge=1, le=100_000, description="How many calls run at once.")
    queue: Whole = Field(
        default=1024, ge=0, le=1_000_000, description="How many calls may wait for that; more are refused."
    )
    arguments: Size = Field(
        default=4 * 1024 * 1024, description="The most text in the arguments of one call, or text such as `1 MiB`."
    )
    result: Size = Field(
        default=1024 * 1024, description="The most text in one answer of a tool; more is cut, and kept to be read."
    )
    tools: dict[str, ToolLimitSettings] = Field(
        default={}, description="Limits of single tools, by patterns (`*`, `?`) of their names; the first that fits."
    )
    page: Whole = Field(
        default=250,
        ge=1,
        le=1000,
        description="The number of entries on one page of a list of tools, resources or prompts.",
    )


class HttpSettings(Frame):
    """Where and for whom the HTTP endpoint listens."""

    host: str = Field(default="127.0.0.1", min_length=1, description="The address to listen on.")
    port: Whole = Field(default=8808, ge=0, le=65535, description="The TCP port to listen on; 0 takes a free one.")
    token_env: str | None = Field(
        default=None, min_length=1, description="The environment variable that holds the bearer token of clients."
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="Values of the Host header to accept besides `host`."
    )
    allowed_origins: tuple[str, ...] = Field(default=(), description="Values of the Origin header to accept.")
    body: Size = Field(
        default=4 * 1024 * 1024, description="The largest request body, in bytes or as text such as `1 MiB`."
    )
    sessions: Whole = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="The most handshake-era sessions, and the most legacy SSE streams, at once; others get 503.",
    )
    idle: Duration = Field(
        default=1800.0, description="How long a handshake-era session may be without a request before it ends."
    )
    resumable: bool = Field(
        default=True, description="Let handshake-era clients resume a stream that broke (`Last-Event-ID`)."
    )
    events: Whole = Field(
        default=256, ge=1, le=100_000, description="The most messages kept for resuming in one session."
    )
    retry: Duration = Field(
        default=1.0, le=3600, description="How long clients are told to wait before they resume a stream."
    )


class StateSettings(Frame):
    """What outlives a call: where it is kept, and for how long."""

    store: str = Field(
        default="memory", min_length=1, description="Where it is kept: `memory`, or your own as `package.module:Name`."
    )
    keys: Keys = Field(
        default=(),
        description="Secrets of 32 or more bytes, as a list or parted by commas, that seal what clients carry. The "
        "first seals, all open; instances that share work share them. None means one made for this process.",
    )
    ttl: Duration = Field(default=600.0, description="How long a question of a call waits for its answer.")
    parked: Whole = Field(
        default=256, ge=1, le=1_000_000, description="The most calls that may wait for answers at once."
    )


class Settings(Frame):
    """The settings file."""

    name: str = Field(default="mcp-bridge", min_length=1, description="The name that clients see.")
    version: str | None = Field(
        default=None, description="The version that clients see; none means that of mcp-bridge."
    )
    title: str | None = Field(default=None, description="The name that people see in clients.")
    instructions: str | None = Field(default=None, description="What a model should know about these tools as a whole.")
    sources: tuple[SourceSettings, ...] = Field(default=(), description="Where tools come from, one entry each.")
    limits: LimitSettings = Field(default=LimitSettings(), description="How much calls may take.")
    http: HttpSettings = Field(default=HttpSettings(), description="Where the HTTP endpoint listens.")
    state: StateSettings = Field(default=StateSettings(), description="What outlives a call.")
    expose_errors: bool = Field(
        default=False, description="Show unexpected errors of tools to clients instead of a reference alone."
    )
    reload: bool = Field(
        default=False, description="Import edited files of a source again, and tell connected clients."
    )

    _directory: Path = PrivateAttr(default_factory=Path)
    _secrets: frozenset[str] = PrivateAttr(default=frozenset())

    def model_post_init(self, context: Any, /) -> None:
        """Keep what came with the document that is given as validation context."""
        if isinstance(context, Document):
            self._directory = Path(context.path).absolute().parent if context.path else Path.cwd()
            self._secrets = context.secrets
        self._secrets |= {key.get_secret_value() for key in self.state.keys}

    @property
    def directory(self) -> Path:
        """The folder of the settings file: relative paths in it start there."""
        return self._directory

    @property
    def secrets(self) -> frozenset[str]:
        """The keys, and the values that came from the environment, none of them empty: not for logs."""
        return self._secrets


def validate(
    model: type[M], data: Any, document: Document, report: Callable[[Sequence[ErrorDetails]], ConfigError]
) -> M:
    """An instance of `model`. Unknown keys are errors, in nested models too, unless its config has `extra`.

    Raises what `report` makes of pydantic's errors, without their text, which may hold secrets.
    """
    extra: Literal["forbid"] | None = None if "extra" in model.model_config else "forbid"
    try:
        return model.model_validate(data, context=document, extra=extra)
    except ValidationError as error:
        found = error.errors(include_url=False)
    raise report(found)


def schemas(models: Sequence[type[BaseModel]]) -> tuple[list[str], dict[str, Any]]:
    """The name of each model's JSON Schema, and all definitions by name."""
    mapping, shared = models_json_schema([(model, "validation") for model in models])
    names = [mapping[model, "validation"]["$ref"].rsplit("/", 1)[1] for model in models]
    return names, shared["$defs"]

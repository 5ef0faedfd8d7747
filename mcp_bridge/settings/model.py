"""The settings file as pydantic models; the descriptions are the settings reference.

This file, `sections` and `values` alone import pydantic, and are imported late: pydantic is most of the cost of reading
settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    InstanceOf,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.json_schema import SkipJsonSchema, models_json_schema
from pydantic_core import ErrorDetails

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents.document import Document
from mcp_bridge.documents.positions import Place
from mcp_bridge.settings.sections import (
    ApprovalSettings,
    ClientName,
    DialectSettings,
    Frame,
    HttpSettings,
    LimitSettings,
    StateSettings,
)
from mcp_bridge.settings.values import Duration, Size, Whole

M = TypeVar("M", bound=BaseModel)
_WORKING_DIRS = ("cwd", "roots")
"""Values of `working_dir` that are no paths; `./cwd` is a folder."""


def _mode(value: Any) -> Any:
    return {"mode": value} if isinstance(value, str) else value


def _clients(value: Any) -> Any:
    if isinstance(value, str):
        return {"clients": [value]}
    return {"clients": value} if isinstance(value, list) else value


def _or_clients(schema: dict[str, Any]) -> None:
    client = {"type": "string", "enum": list(get_args(ClientName))}
    schema["anyOf"] = [*schema["anyOf"], client, {"type": "array", "items": client}]


def _or_its_mode(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [*schema["anyOf"], {"enum": ["none", "process"]}]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a part of the settings was written, for errors that are found later."""

    document: Document
    where: Place


class IsolationSettings(Frame):
    """Where the tools of a source run, and what they may take there."""

    mode: Literal["none", "process"] = Field(
        default="process", description="`process`: in workers of their own; `none`: in the bridge's process."
    )
    tools: tuple[str, ...] = Field(
        default=(), description="Patterns (`*`, `?`) of the names of tools that run there; none means the whole source."
    )
    workers: Whole = Field(
        default=4, ge=1, le=256, description="The most workers; each has one call at a time, more calls wait."
    )
    memory: Size = Field(default=2 * 1024**3, description="The memory (address space) of one worker.")
    cpu: Duration | None = Field(
        default=None, description="How long one call may compute; none means as long as it may last."
    )
    files: Whole = Field(default=256, ge=16, le=1_000_000, description="The most files open at once in one worker.")
    file_size: Size = Field(default=100 * 1024**2, description="The largest file that a worker may write.")
    env: tuple[str, ...] = Field(
        default=(), description="Environment variables that workers get besides PATH, HOME, LANG and their like."
    )
    sandbox: Literal["bubblewrap"] | None = Field(
        default=None, description="`bubblewrap`: workers see the system and the settings' folder alone, read-only."
    )
    network: bool = Field(default=False, description="Let sandboxed workers reach the network.")
    read: tuple[str, ...] = Field(default=(), description="Other paths that sandboxed workers may read.")
    write: tuple[str, ...] = Field(default=(), description="Paths that sandboxed workers may write to.")


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
    isolation: Annotated[IsolationSettings, BeforeValidator(_mode)] | None = Field(
        default=None,
        description="`process`: run its tools in processes of their own; or how, in detail.",
        json_schema_extra=_or_its_mode,
    )
    options: SkipJsonSchema[dict[str, Any]] = Field(
        default={}, repr=False, description="The other keys: the raw options of this type, see `options()`."
    )
    origin: SkipJsonSchema[InstanceOf[Origin] | None] = Field(
        default=None, repr=False, exclude=True, description="Where this source was written."
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
    approvals: ApprovalSettings = Field(
        default=ApprovalSettings(), description="How people decide about calls that hooks ask about."
    )
    dialect: Annotated[DialectSettings, BeforeValidator(_clients)] | None = Field(
        default=None,
        description="How tools are told to clients: as these need it (the name of one, or a list), or in detail.",
        json_schema_extra=_or_clients,
    )
    working_dir: str | None = Field(
        default=None,
        min_length=1,
        description="The folder that Amplifier modules work in: a path, `cwd` (the folder that the process was started "
        "in) or `roots` (the first root of each client). None means the folder of the settings.",
    )
    event_loop: Literal["asyncio", "uvloop"] = Field(
        default="asyncio",
        description="The event loop that `serve` runs on. `uvloop` (the extra `uvloop`) may take less CPU per call, "
        "but can break tools that run programs, and disable hooks that do.",
    )
    expose_errors: bool = Field(
        default=False, description="Show unexpected errors of tools to clients instead of a reference alone."
    )
    reload: bool = Field(
        default=False, description="Import edited files of a source again, and tell connected clients."
    )

    _directory: Path = PrivateAttr(default_factory=Path)
    _document: Document | None = PrivateAttr(default=None)
    _secrets: frozenset[str] = PrivateAttr(default=frozenset())
    _told: frozenset[str] = PrivateAttr(default=frozenset())

    def model_post_init(self, context: Any, /) -> None:
        """Keep what came with the document that is given as validation context."""
        if isinstance(context, Document):
            self._document = context
            self._directory = _directory_of(context)
            self._secrets, self._told = context.secrets, context.told
        self._secrets |= {key.get_secret_value() for key in self.state.keys}

    @field_validator("working_dir")
    @classmethod
    def _check_folder(cls, value: str | None, info: ValidationInfo) -> str | None:
        directory = _directory_of(info.context) if isinstance(info.context, Document) else Path()
        if value not in (None, *_WORKING_DIRS) and not os.path.isdir(_below(directory, value)):
            raise ValueError(f"expected a folder that exists, or one of {', '.join(_WORKING_DIRS)}")
        return value

    def located(self, error: ConfigError, *where: str) -> ConfigError:
        """The error with the file, and the line of the key that it is about."""
        return error if self._document is None else self._document.error(where, error.problem, error.hint)

    @property
    def directory(self) -> Path:
        """The folder of the settings file: relative paths in it start there."""
        return self._directory

    @property
    def working_directory(self) -> Path:
        """The folder that tools work in; with `roots`, that of clients which have none."""
        if self.working_dir == "cwd":
            return Path.cwd()
        if self.working_dir is None or self.uses_roots:
            return self.directory.resolve()
        return _below(self.directory, self.working_dir).resolve()

    @property
    def uses_roots(self) -> bool:
        """Whether clients are asked for the folder that their tools work in."""
        return self.working_dir == "roots"

    @property
    def path(self) -> Path:
        """The settings file; their folder where they come from none."""
        named = self._document.path if self._document is not None else ""
        return Path(named).resolve() if named else self._directory.resolve()

    @property
    def secrets(self) -> frozenset[str]:
        """The keys, and the values that came from the environment, none of them empty: not for logs."""
        return self._secrets

    @property
    def withheld(self) -> frozenset[str]:
        """Those of the secrets that are not for clients either: see `environment.expand`."""
        return self._secrets - (self._told - {key.get_secret_value() for key in self.state.keys})


def _directory_of(document: Document) -> Path:
    return Path(document.path).absolute().parent if document.path else Path.cwd()


def _below(directory: Path, path: str) -> Path:
    """A path of the settings, where `~` is the user's home."""
    return directory / os.path.expanduser(path)


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

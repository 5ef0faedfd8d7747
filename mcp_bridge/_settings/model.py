"""The settings file as pydantic models. Their descriptions are the reference in docs/settings-reference.md.

Only the modules of this package that define models import pydantic. They are imported late, because importing
pydantic is most of the time of reading settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args
from urllib.parse import unquote, urlsplit

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
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import ErrorDetails

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._json_schema.secret_names import find_secret_values
from mcp_bridge._settings.chains import ChainSettings
from mcp_bridge._settings.documents.document import Document
from mcp_bridge._settings.documents.positions import KeyPath, PathStep
from mcp_bridge._settings.isolation import IsolationSettings
from mcp_bridge._settings.sections import (
    ApprovalSettings,
    ClientName,
    DialectSettings,
    HttpSettings,
    LimitSettings,
    SettingsModel,
    SharedSettings,
    StateSettings,
    TaskSettings,
    ToolSearchSettings,
)
from mcp_bridge._settings.values import Annotation, add_alternatives

M = TypeVar("M", bound=BaseModel)
_CLIENT = {"type": "string", "enum": list(get_args(ClientName))}
_WORKING_DIRS = ("cwd", "roots")
"""Values of `working_dir` that are not paths. A folder of this name is written `./cwd`."""


def _parse_isolation(value: Any) -> Any:
    if value == "process":
        return {}
    if value == "container":
        return {"container": {}}
    if value == "none":
        return None
    return value


def _parse_clients(value: Any) -> Any:
    if isinstance(value, str):
        return {"clients": [value]}
    if isinstance(value, list):
        return {"clients": value}
    return value


def _parse_number(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"above": value}
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The place of a part of the settings in its file, for later errors."""

    document: Document
    where: KeyPath
    problem: ConfigError | None = None
    """A problem that has been found already, and concerns this part alone."""
    is_alone: bool = False
    """Whether all problems of this part concern it alone: the other parts are used."""
    notes: tuple[str, ...] = ()
    """What users should know about this part, although it can be used."""


class ArgumentOverrideSettings(SettingsModel):
    """A change to an argument of a tool."""

    value: Any = Field(
        default=None, description="The value that is sent with every call. Clients neither see nor send the argument."
    )
    hidden: bool = Field(default=False, description="Leave the argument out: clients neither see nor send it.")
    description: str | None = Field(default=None, description="Another description of the argument.")


class ToolOverrideSettings(SettingsModel):
    """Changes to a tool."""

    title: str | None = Field(default=None, min_length=1, description="The name that clients display to users.")
    description: str | None = Field(default=None, min_length=1, description="Another description of the tool.")
    annotations: dict[Annotation, bool] = Field(
        default={},
        description="Annotations that you declare for the tool, such as `readOnlyHint: true`, for clients and "
        "[policies](policies.md).",
    )
    arguments: dict[str, ArgumentOverrideSettings] = Field(default={}, description="Changes to its arguments, by name.")


class SourceSettings(SettingsModel):
    """A source of tools."""

    type: str = Field(min_length=1, description="The type of the source, such as `python`. It determines the options.")
    name: str | None = Field(default=None, min_length=1, description="The name of the source in logs and errors.")
    prefix: str | None = Field(
        default=None,
        description="A prefix for the name of each tool. Two underscores join it to the name, unless it ends with `_`, "
        "`-` or `.`.",
    )
    alias: dict[str, str] = Field(
        default={}, description="New names for tools: a mapping from original names to published names."
    )
    overrides: dict[str, ToolOverrideSettings] = Field(
        default={},
        description="Changes to tools by their original names: another `title` or `description`, `annotations`, and "
        "`arguments` that clients do not give, because they are `hidden` or have a fixed `value`.",
    )
    include: tuple[str, ...] = Field(
        default=(), description="Patterns (`*`, `?`) of the names of tools to publish. Default: all tools."
    )
    exclude: tuple[str, ...] = Field(
        default=(),
        description="Patterns (`*`, `?`) of the names of tools not to publish. They take precedence over `include`.",
    )
    tags: tuple[str, ...] = Field(
        default=(), description="Publish only tools with at least one of these tags. Default: all tools."
    )
    isolation: Annotated[IsolationSettings | None, BeforeValidator(_parse_isolation)] = Field(
        default=None,
        description="`process` runs the tools in worker processes, `container` in containers, `none` in the process of "
        "the server; a mapping sets details.",
        json_schema_extra=add_alternatives({"enum": ["none", "process", "container"]}),
    )
    options: SkipJsonSchema[dict[str, Any]] = Field(
        default={},
        repr=False,
        description="The other keys, which are the options of the type, not validated. See `options()`.",
    )
    origin: SkipJsonSchema[InstanceOf[Origin] | None] = Field(
        default=None, repr=False, exclude=True, description="The place of the source in the settings file."
    )

    def add_location(self, error: ConfigError, *key: PathStep) -> ConfigError:
        """Add the file, and the line of the source or of one of its keys, to an error."""
        if self.origin is None:
            return error
        return self.origin.document.make_error((*self.origin.where, *key), error.problem, error.hint)


class PolicySettings(SettingsModel):
    """A policy for calls."""

    name: str = Field(min_length=1, description="The policy, such as `rate_limit`, or your own as `module:Name`.")
    options: SkipJsonSchema[dict[str, Any]] = Field(
        default={}, repr=False, description="Its options, not validated. See `parse_policy_options`."
    )
    origin: SkipJsonSchema[InstanceOf[Origin] | None] = Field(
        default=None, repr=False, exclude=True, description="The place of the options in the settings file."
    )


class Settings(SettingsModel):
    """The settings file."""

    name: str | None = Field(
        default=None,
        min_length=1,
        description="The name that clients see. Default: the name of the file, or of its folder for names such as "
        "`mcp-bridge.yaml`.",
    )
    version: str | None = Field(
        default=None, description="The version that clients see. Default: the version of mcp-bridge."
    )
    title: str | None = Field(default=None, description="The name that clients display to users.")
    instructions: str | None = Field(
        default=None, description="Instructions for the model about the tools of this server as a whole."
    )
    sources: tuple[SourceSettings, ...] = Field(default=(), description="The sources of tools.")
    policy: tuple[PolicySettings, ...] = Field(
        default=(),
        description="[Policies](policies.md) for calls. Each item is the name of a policy, or a mapping from its name "
        "to its options.",
    )
    chains: dict[str, ChainSettings] = Field(
        default={}, description="Tools that run tools of the sources one after another, by their names."
    )
    limits: LimitSettings = Field(default=LimitSettings(), description="Limits for calls.")
    http: HttpSettings = Field(default=HttpSettings(), description="The HTTP endpoint.")
    shared: SharedSettings = Field(default=SharedSettings(), description="The server of `serve --shared`.")
    state: StateSettings = Field(default=StateSettings(), description="State that is kept between calls.")
    tasks: TaskSettings | None = Field(
        default=None,
        description="Calls that continue as tasks for clients that support them; `{}` for the defaults. Default: none.",
    )
    approvals: ApprovalSettings = Field(default=ApprovalSettings(), description="How users approve calls.")
    dialect: Annotated[DialectSettings, BeforeValidator(_parse_clients)] | None = Field(
        default=None,
        description="Changes to tool definitions for clients that need them: the name of a client, a list of names, "
        "or a mapping that sets details.",
        json_schema_extra=add_alternatives(_CLIENT, {"type": "array", "items": _CLIENT}),
    )
    tool_search: Annotated[ToolSearchSettings, BeforeValidator(_parse_number)] | None = Field(
        default=None,
        description="List only some tools if there are many, and let clients search for the others: the maximum number "
        "of tools that are all listed, or a mapping that sets details. Default: list all tools.",
        json_schema_extra=add_alternatives({"type": "integer", "minimum": 0}),
    )
    entries_as_tools: bool = Field(
        default=False,
        description="List `list_resources`, `read_resource`, `list_prompts` and `get_prompt`, for clients that use "
        "only tools.",
    )
    working_dir: str | None = Field(
        default=None,
        min_length=1,
        description="The working directory of Amplifier modules: a path, `cwd` (the folder in which the server was "
        "started) or `roots` (the first root of each client). Default: the folder of the settings file.",
    )
    event_loop: Literal["asyncio", "uvloop"] = Field(
        default="asyncio",
        description="The event loop of `serve`. `uvloop` (needs the extra `uvloop`) may use less CPU per call, but can "
        "break tools that run programs, and disables hooks that do.",
    )
    expose_errors: bool = Field(
        default=False,
        description="Show clients the text of unexpected exceptions of tools. By default, they get only a reference to "
        "the log.",
    )

    _directory: Path = PrivateAttr(default_factory=Path)
    _document: Document | None = PrivateAttr(default=None)
    _secrets: frozenset[str] = PrivateAttr(default=frozenset())
    _public: frozenset[str] = PrivateAttr(default=frozenset())

    def model_post_init(self, context: Any, /) -> None:
        """Store the file and the secrets of the document, which is the context of the validation."""
        if isinstance(context, Document):
            self._document = context
            self._directory = _get_directory(context)
            self._secrets, self._public = context.secrets, context.visible_secrets
        overrides = [source.model_dump(include={"overrides"}) for source in self.sources if source.overrides]
        options = [*(source.options for source in self.sources), *(policy.options for policy in self.policy)]
        secret_values = frozenset(find_secret_values([*options, *overrides]))
        self._public -= secret_values
        password = None
        # Another part of the address may be invalid. The store reports it.
        with suppress(ValueError):
            password = urlsplit(self.state.store).password
        self._secrets |= secret_values
        if password:
            self._secrets |= {password, unquote(password)}
        self._secrets |= {key.get_secret_value() for key in self.state.keys}

    @field_validator("working_dir")
    @classmethod
    def _check_working_dir(cls, value: str | None, info: ValidationInfo) -> str | None:
        directory = _get_directory(info.context) if isinstance(info.context, Document) else Path()
        if value not in (None, *_WORKING_DIRS) and not os.path.isdir(_resolve_path(directory, value)):
            raise ValueError(f"expected an existing folder, or one of {', '.join(_WORKING_DIRS)}")
        return value

    def add_location(self, error: ConfigError, *where: PathStep) -> ConfigError:
        """Add the file, and the line of a key, to an error."""
        return error if self._document is None else self._document.make_error(where, error.problem, error.hint)

    @property
    def directory(self) -> Path:
        """The folder of the settings file, where its relative paths start."""
        return self._directory

    @property
    def working_directory(self) -> Path:
        """The working folder of tools. With `roots`, it is the one of clients without roots."""
        if self.working_dir == "cwd":
            return Path.cwd()
        if self.working_dir is None or self.uses_roots:
            return self.directory.resolve()
        return _resolve_path(self.directory, self.working_dir).resolve()

    @property
    def uses_roots(self) -> bool:
        """Whether the working directory is the first root of each client."""
        return self.working_dir == "roots"

    @property
    def state_name(self) -> str:
        """The name in audit records, stored state and tasks, which does not depend on the file."""
        return self.name or "mcp-bridge"

    @property
    def file(self) -> Path | None:
        """The settings file as the user named it, or None if the settings are not from a file."""
        if self._document is None or not self._document.path:
            return None
        return Path(self._document.path)

    @property
    def path(self) -> Path:
        """The settings file, or its folder if the settings are not from a file."""
        return (self.file or self._directory).resolve()

    @property
    def secrets(self) -> frozenset[str]:
        """The values to redact in logs.

        These are the keys of `state`, values from the environment, and text in sources under keys such as `token`.
        """
        return self._secrets

    @property
    def hidden_from_clients(self) -> frozenset[str]:
        """The values to redact for clients, too. See `environment.expand`."""
        visible_secrets = self._public - {key.get_secret_value() for key in self.state.keys}
        return self._secrets - visible_secrets


def _get_directory(document: Document) -> Path:
    return Path(document.path).absolute().parent if document.path else Path.cwd()


def _resolve_path(directory: Path, path: str) -> Path:
    return directory / os.path.expanduser(path)


def validate(
    model: type[M], data: Any, document: Document, report: Callable[[Sequence[ErrorDetails]], ConfigError]
) -> M:
    """Validate data. Unknown keys are errors, even in nested models, unless the config of the model has `extra`.

    Raises the error that `report` makes, and hides pydantic's own, whose text may contain secrets.
    """
    extra: Literal["forbid"] | None = None if "extra" in model.model_config else "forbid"
    try:
        return model.model_validate(data, context=document, extra=extra)
    except ValidationError as error:
        errors = error.errors(include_url=False)
    raise report(errors)

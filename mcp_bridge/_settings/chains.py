"""The section `chains` of the settings file. Its descriptions are in docs/settings-reference.md."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from mcp_bridge._settings.sections import SettingsModel

ContextPath = Annotated[str, Field(pattern=r"^[^.]+(\.[^.]+)*$")]


class StepInputSettings(SettingsModel):
    """The value of an argument: from the context of the chain, or fixed."""

    path: ContextPath | None = Field(
        default=None, alias="from", description="A key of the context, or a dotted path such as `page.text`."
    )
    default: Any = Field(default=None, description="The value if the context has none.")
    value: Any = Field(default=None, description="A fixed value, instead of `from`.")

    @model_validator(mode="after")
    def _check_one_of_both(self) -> Self:
        if (self.path is None) == ("value" not in self.model_fields_set):
            raise ValueError("give either from or value")
        if self.path is None and "default" in self.model_fields_set:
            raise ValueError("default requires from")
        return self

    @property
    def has_value(self) -> bool:
        """Whether there is a fixed value, or a default."""
        return not self.model_fields_set.isdisjoint(("default", "value"))


def _parse_path(value: Any) -> Any:
    return {"from": value} if isinstance(value, str) else value


def _add_path_schema(schema: dict[str, Any]) -> None:
    schema["additionalProperties"] = {"anyOf": [schema["additionalProperties"], {"type": "string"}]}


class ChainStepSettings(SettingsModel):
    """One step of a chain: a call to a tool."""

    tool: str = Field(min_length=1, description="The published name of the tool, of any source, or of a chain.")
    input: dict[str, Annotated[StepInputSettings, BeforeValidator(_parse_path)]] = Field(
        default={},
        description="The arguments: a mapping from their names to keys or dotted paths of the context, or to "
        "`{from: PATH, default: VALUE}` or `{value: VALUE}`; `{}` for no arguments. Default: the whole context.",
        json_schema_extra=_add_path_schema,
    )
    output: ContextPath | None = Field(
        default=None,
        description="The key of the context for the output. Default: the keys of an object become keys of the context.",
    )
    continue_on_failure: bool = Field(
        default=False, description="Continue the chain if this step fails; a note in the result says so."
    )


class ChainSettings(SettingsModel):
    """Tools that run one after another, as one tool."""

    description: str = Field(
        default="", description="What the chain does, for the model. Default: the names of its tools."
    )
    tags: tuple[str, ...] = Field(default=(), description="Tags of the tool.")
    annotations: dict[str, bool] = Field(
        default={},
        description="Hints for clients: `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`.",
    )
    steps: tuple[ChainStepSettings, ...] = Field(min_length=1, description="The steps, in their order.")
    input_schema: dict[str, Any] | None = Field(
        default=None,
        description="The JSON Schema of the input. Default: what the steps need, with the types of their tools.",
    )
    output: ContextPath | tuple[ContextPath, ...] | None = Field(
        default=None,
        description="What the chain returns: a key or dotted path of the context, or a list of them. Default: the "
        "whole context.",
    )

"""Amplifier's models: results of tools, decisions of hooks, descriptions of providers and modules.

Their shapes are those of the Tool and Hook contracts (TOOL_CONTRACT 1.0.0, HOOK_CONTRACT 1.0.0) and amplifier-core 2.0.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, computed_field, model_validator

from mcp_bridge._integrations.amplifier.results import render_output

Action = Literal["continue", "deny", "modify", "inject_context", "ask_user"]
Role = Literal["system", "user", "assistant"]
Level = Literal["info", "warning", "error"]


class ToolResult(BaseModel):
    """The result of a tool, in either of the two forms of the contracts.

    The first form has `success`, `output` and `error`, the second `tool_call_id`, `output` and `is_error`. `content`
    has text and image blocks. Raises ValueError if `success` and `is_error` contradict each other.

    >>> ToolResult(success=False, error={"message": "no such city"}).get_serialized_output()
    'no such city'
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    success: bool = True
    output: Any | None = None
    error: dict[str, Any] | None = None
    tool_call_id: str = ""
    content: list[Any] | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def is_error(self) -> bool:
        return not self.success

    @is_error.setter
    def is_error(self, is_error: bool) -> None:
        self.success = not is_error

    @model_validator(mode="before")
    @classmethod
    def _merge_forms(cls, fields: Any) -> Any:
        if not isinstance(fields, dict) or fields.get("is_error") is None:
            return fields
        is_error, success = fields["is_error"], fields.get("success")
        if not isinstance(is_error, bool):
            raise ValueError(f"is_error must be true or false, got {type(is_error).__name__}")  # noqa: TRY004 pydantic
        if success is not None and bool(success) == is_error:
            raise ValueError(f"success={success} and is_error={is_error} contradict each other")
        return {**fields, "success": not is_error}

    @model_validator(mode="after")
    def _set_output(self) -> Self:
        """Use the error message as the output of a failure without output, because a model reads only the output."""
        if not self.success and self.output is None and self.error and self.error.get("message"):
            self.output = self.error["message"]
        return self

    def __str__(self) -> str:
        return self.get_serialized_output()

    def get_serialized_output(self) -> str:
        """Return the output as text for a model: text verbatim, anything else as JSON. Never raises."""
        if self.output is None:
            message = (self.error or {}).get("message", "Unknown error")
            return "Success" if self.success else f"Error: {render_output(message)}"
        return render_output(self.output)


class ContextInjection(BaseModel):
    """A text that a hook injects into the model's context.

    >>> ContextInjection(content="The user is in Ulm.").role
    'system'
    """

    content: str
    role: Role = "system"
    ephemeral: bool = False
    append_to_last_tool_result: bool = False


class HookResult(BaseModel):
    """The decision of a hook: `continue`, `deny`, `modify` the data, `inject_context`, or `ask_user`.

    `approval_timeout` is in seconds. On the result of `HookRegistry.emit`, `data` is the event's data as all hooks have
    modified it, whatever the action, `modified_by` has the names of these hooks, and `context_injections` has every
    injected text in order.

    >>> HookResult(action="deny", reason="Only on weekdays.").reason
    'Only on weekdays.'
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    action: Action = "continue"
    data: dict[str, Any] | None = None
    reason: str | None = None
    context_injection: str | None = None
    context_injection_role: Role = "system"
    ephemeral: bool = False
    approval_prompt: str | None = None
    approval_options: list[str] | None = None
    approval_timeout: float = Field(default=300.0, ge=0)
    approval_default: Literal["allow", "deny"] = "deny"
    suppress_output: bool = False
    user_message: str | None = None
    user_message_level: Level = "info"
    user_message_source: str | None = None
    append_to_last_tool_result: bool = False
    context_injections: list[ContextInjection] = Field(default_factory=list)
    modified_by: list[str] = Field(default_factory=list)


class ModelInfo(BaseModel):
    """A model of a provider; the windows are in tokens.

    >>> ModelInfo(id="small", display_name="Small", context_window=8000, max_output_tokens=1000).capabilities
    []
    """

    id: str
    display_name: str
    context_window: int
    max_output_tokens: int
    capabilities: list[str] = Field(default_factory=list)
    defaults: dict[str, Any] = Field(default_factory=dict)


class ProviderInfo(BaseModel):
    """A provider's description of itself; `credential_env_vars` are names, never values.

    >>> ProviderInfo(id="example", display_name="Example", credential_env_vars=["EXAMPLE_API_KEY"]).id
    'example'
    """

    id: str
    display_name: str
    credential_env_vars: list[str] = Field(default_factory=list)
    capabilities: list[str] = Field(default_factory=list)
    defaults: dict[str, Any] = Field(default_factory=dict)


class ModuleInfo(BaseModel):
    """A module that can be loaded.

    >>> ModuleInfo(id="tool-forecast", name="Forecast", type="tool", mount_point="tools").version
    ''
    """

    id: str
    name: str
    version: str = ""
    type: str = ""
    mount_point: str = ""
    description: str = ""

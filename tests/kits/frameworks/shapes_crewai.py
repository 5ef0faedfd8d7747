"""Objects in the documented shape of crewai 1.15. The package itself needs some eighty others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from tests.kits.frameworks.shapes_classes import make_class


class ToolFailure(BaseModel):
    """The value of a failed tool of CrewAI."""

    message: str
    reason: str = "tool_reported"
    code: str | None = None


ToolFailure.__module__ = "crewai.tools.tool_failure"
ToolUsageLimitExceededError: Any = make_class(
    "crewai.tools.structured_tool", name="ToolUsageLimitExceededError", bases=(Exception,)
)


class BaseTool(BaseModel):
    """Runs `_run` with validated keywords, up to `max_usage_count` times."""

    name: str
    description: str
    args_schema: Any = None
    max_usage_count: int | None = None
    current_usage_count: int = 0
    says_limits: str = "failure"

    def run(self, **arguments: Any) -> Any:
        try:
            arguments = self.args_schema.model_validate(arguments).model_dump()
        except ValueError as error:
            raise ValueError(f"Tool '{self.name}' arguments validation failed: {error}") from error
        if self.max_usage_count is not None and self.current_usage_count >= self.max_usage_count:
            text = (
                f"Tool '{self.name}' has reached its usage limit of {self.max_usage_count} times and cannot be used "
                "anymore."
            )
            return text if self.says_limits == "text" else ToolFailure(message=text, reason="usage_limit")
        self.current_usage_count += 1
        return self._run(**arguments)

    def _run(self, **arguments: Any) -> Any:
        raise NotImplementedError


BaseTool.__module__ = "crewai.tools.base_tool"


class CrewStructuredTool(BaseModel):
    """Runs a function with the arguments in one dict, up to `max_usage_count` times."""

    name: str = ""
    description: str = ""
    args_schema: Any = None
    func: Callable[..., Any]
    max_usage_count: int | None = None
    current_usage_count: int = 0

    def invoke(self, input: dict[str, Any]) -> Any:
        if self.max_usage_count is not None and self.current_usage_count >= self.max_usage_count:
            raise ToolUsageLimitExceededError(f"Tool '{self.name}' has reached its maximum usage limit.")
        self.current_usage_count += 1
        return self.func(**input)


CrewStructuredTool.__module__ = "crewai.tools.structured_tool"

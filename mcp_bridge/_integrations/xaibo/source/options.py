"""The options of a Xaibo source in the settings file. The module is imported late, because it imports pydantic."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from mcp_bridge._settings import SettingsModel


class XaiboOptions(SettingsModel):
    """Tools of a Xaibo tool provider or of the providers of an agent, and whole agents as tools."""

    provider: str | None = Field(
        default=None,
        min_length=1,
        description="A provider as `package.module:Name` or `path/to/file.py:Name`: its class, an instance, or a "
        "function that returns one. Modules are importable from the folder of the settings file.",
    )
    config: dict[str, Any] = Field(default={}, description="The `config` argument of the provider's class or function.")
    agent: str | None = Field(
        default=None,
        min_length=1,
        description="The YAML file of a Xaibo agent, instead of `provider`. It names classes to import, so treat it "
        "as code. Needs the package `xaibo`.",
    )
    offer: Literal["tools", "agent", "both"] = Field(
        default="tools",
        description="What to publish of an agent: `tools` (those of its providers), `agent` (one tool for each entry "
        "point), or `both`.",
    )

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if (self.provider is None) == (self.agent is None):
            raise ValueError("give either provider or agent")
        if self.agent is not None and self.config:
            raise ValueError("config is for a provider; configure an agent in its own YAML")
        if self.agent is None and self.offer != "tools":
            raise ValueError(f"offer: {self.offer} needs an agent")
        return self

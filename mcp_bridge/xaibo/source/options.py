"""The options of a Xaibo source in the settings file. Imports pydantic, so it is imported late."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from mcp_bridge.settings import Duration, Frame
from mcp_bridge.xaibo.source.source import XaiboSource


class XaiboOptions(Frame):
    """Tools of a Xaibo tool provider, or of the providers in an agent's YAML; and Xaibo agents as tools."""

    provider: str | None = Field(
        default=None,
        min_length=1,
        description="A provider as `package.module:Name` or `path/to/file.py:Name`: its class, an instance, or a "
        "function that makes one. What it names is importable from the folder of the settings.",
    )
    config: dict[str, Any] = Field(default={}, description="What the provider's class or function gets as `config`.")
    agent: str | None = Field(
        default=None,
        min_length=1,
        description="The YAML file of a Xaibo agent, instead of a provider. It says which classes are imported and "
        "made, so it is code. Needs `xaibo`.",
    )
    offer: Literal["tools", "agent", "both"] = Field(
        default="tools",
        description="What of the agent is published: the tools of its providers, the agent itself (one tool for each "
        "entry point), or both.",
    )
    refresh: Duration | None = Field(
        default=None,
        description="How often the providers are asked again what they have. None means once, and when a tool that "
        "is listed turns out to be gone.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.provider is None) == (self.agent is None):
            raise ValueError("give either provider or agent")
        if self.agent is not None and self.config:
            raise ValueError("config belongs to a provider; an agent has its configuration in its own YAML")
        if self.agent is None and self.offer != "tools":
            raise ValueError(f"offer: {self.offer} needs an agent")
        return self

    def build(self, name: str, directory: Path, *, watch: bool) -> XaiboSource:
        """The source; relative paths start at `directory`."""
        directory = directory.resolve()
        return XaiboSource(
            name,
            provider=self.provider,
            config=self.config,
            agent=directory / Path(self.agent).expanduser() if self.agent is not None else None,
            offer=self.offer,
            refresh=self.refresh,
            directory=directory,
        )

    def default_name(self) -> str:
        """What the source is called when the settings do not say."""
        if self.agent is not None:
            return Path(self.agent).stem
        return str(self.provider).rpartition(":")[2].rpartition(".")[2]

"""The options of a framework source in the settings file. Imported late, because it imports pydantic."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from mcp_bridge._contracts.extension import ToolSource
from mcp_bridge._integrations.frameworks.source import FrameworkSource
from mcp_bridge._settings import Duration, SettingsModel


class FrameworkOptions(SettingsModel):
    """Tools of other Python frameworks, such as LangChain, pydantic-ai and FastMCP, and of UTCP manuals."""

    objects: tuple[str, ...] = Field(
        default=(),
        description="Objects as `module:attribute`, importable from the folder of the settings file: a tool, a set of "
        "tools, a list of these, or a function without parameters that returns one of these.",
    )
    utcp: tuple[str, ...] = Field(
        default=(), description="Files of UTCP manuals. Relative paths start at the folder of the settings file."
    )
    start_timeout: Duration = Field(
        default=30.0,
        description="How long creating, opening or listing an object may take.",
    )

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if not self.objects and not self.utcp:
            raise ValueError("give objects, utcp, or both")
        return self

    def build(self, name: str, directory: Path, *, watch: bool) -> ToolSource:
        """Build the source. Relative paths start at `directory`. `watch` has no effect: objects are imported once."""
        return FrameworkSource(
            name,
            objects=self.objects,
            utcp=[(directory / Path(path).expanduser()).resolve() for path in self.utcp],
            directory=directory,
            start_timeout=self.start_timeout,
        )

    def default_name(self) -> str:
        return "framework"

"""The options of a framework source in the settings file. Imports pydantic, so it is imported late."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from mcp_bridge.frameworks.source import FrameworkSource
from mcp_bridge.settings import Duration, Frame


class FrameworkOptions(Frame):
    """Tools of other Python frameworks: LangChain, pydantic-ai, FastMCP and more; and UTCP manuals."""

    objects: tuple[str, ...] = Field(
        default=(),
        description="Objects as `module:attribute`, importable from the folder of the settings: a tool, a set of "
        "tools, a list of either, or a function without arguments that makes one of these.",
    )
    utcp: tuple[str, ...] = Field(
        default=(), description="Files of UTCP manuals; relative paths start at the folder of the settings."
    )
    open_timeout: Duration = Field(
        default=30.0, description="How long an object may take to be made, and a set of tools to be opened and listed."
    )

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.objects and not self.utcp:
            raise ValueError("name something under objects or utcp")
        return self

    def build(self, name: str, directory: Path, *, watch: bool) -> FrameworkSource:
        """The source; relative paths start at `directory`. Objects are not imported again, whatever `watch` says."""
        return FrameworkSource(
            name,
            objects=self.objects,
            utcp=[(directory / Path(path).expanduser()).resolve() for path in self.utcp],
            directory=directory,
            open_timeout=self.open_timeout,
        )

    def default_name(self) -> str:
        """What the source is called when the settings do not say."""
        return "framework"

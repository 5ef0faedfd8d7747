"""The options of a Python source in the settings file. Imports pydantic, so it is imported late."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from mcp_bridge.settings import Frame
from mcp_bridge.sources.python.source import PythonSource


class PythonOptions(Frame):
    """Tools from a Python file, a folder of files, or a module."""

    path: str | None = Field(
        None,
        min_length=1,
        description="A Python file or a folder of them; relative paths start at the folder of the settings.",
    )
    module: str | None = Field(None, min_length=1, description="A module by its dotted name, instead of a path.")
    tools: tuple[str, ...] = Field(
        (),
        description="Functions to publish though nothing marks them as tools, and sets of tools of other frameworks, "
        "such as a FastMCP server, which are kept open.",
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.path is None) == (self.module is None):
            raise ValueError("give either path or module")
        return self

    def build(self, name: str, directory: Path, *, watch: bool) -> PythonSource:
        """The source; relative paths start at `directory`."""
        path = directory / self.path if self.path is not None else None
        return PythonSource(name, path=path, module=self.module, directory=directory, tools=self.tools, watch=watch)

    def default_name(self) -> str:
        """What the source is called when the settings do not say."""
        return Path(self.path).stem if self.path is not None else str(self.module)

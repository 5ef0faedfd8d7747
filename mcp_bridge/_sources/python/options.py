"""The options of a Python source in the settings file. Imported late, because it imports pydantic."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from mcp_bridge._settings import SettingsModel


class PythonOptions(SettingsModel):
    """Tools from a Python file, a folder of files, or a module."""

    path: str | None = Field(
        None,
        min_length=1,
        description="A Python file or a folder of them. Relative paths start at the folder of the settings file.",
    )
    module: str | None = Field(
        None, min_length=1, description="The dotted name of a module to import, instead of `path`."
    )
    tools: tuple[str, ...] = Field(
        (),
        description="Names of undecorated functions to publish, and of sets of tools of other frameworks to open. A "
        "FastMCP server or an MCPServer of the MCP SDK need not be named, unless the file has several.",
    )

    @model_validator(mode="after")
    def _check_one_of_both(self) -> Self:
        if (self.path is None) == (self.module is None):
            raise ValueError("give either path or module")
        return self

"""What a tool provider may raise. The text is for whoever made the call, and is shown as it stands."""

from __future__ import annotations


class ToolError(Exception):
    """What tools raise."""


class ToolNotFoundError(ToolError):
    """The provider has no tool of that name."""


class ToolExecutionError(ToolError):
    """The tool was there and did not succeed."""


class ToolParameterError(ToolError):
    """The tool cannot be run with these parameters."""

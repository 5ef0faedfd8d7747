"""The base class of a vendor's format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from mcp_bridge.export.calls import ModelCall, RawCall
from mcp_bridge.export.results import ModelResult
from mcp_bridge.export.tools import ExportedTool


class Format(ABC):
    """How a vendor writes tools, calls and results."""

    name: ClassVar[str]
    """The name of the format on the command line."""
    strict: ClassVar[bool] = False
    """Whether tools can be exported for a strict mode of this vendor."""
    needs_initial_letter: ClassVar[bool] = False
    """Whether a tool's name must begin with a letter or `_`."""

    @abstractmethod
    def format_tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """The `tools` of a request."""

    @abstractmethod
    def find_calls(self, response: Any) -> Iterator[RawCall]:
        """The calls in a model's response, in their order."""

    @abstractmethod
    def format_result(self, call: ModelCall, result: ModelResult) -> dict[str, Any]:
        """One result: a message, or a block or item of a message."""

    def build_messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The messages to append to the conversation for all results of one response."""
        return list(results)

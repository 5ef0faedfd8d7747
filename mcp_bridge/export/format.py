"""What a format of a vendor is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from mcp_bridge.export.answers import Answer
from mcp_bridge.export.calls import ModelCall
from mcp_bridge.export.reading import Wanted
from mcp_bridge.export.tools import ExportedTool


class Format(Protocol):
    """Tools, calls and results as one vendor writes them; `strict` tells whether it has a strict mode that we make."""

    @property
    def name(self) -> str:
        """What the format is called on the command line."""
        ...

    @property
    def strict(self) -> bool:
        """Whether tools may be exported for its strict mode."""
        ...

    @property
    def begins_with_letter(self) -> bool:
        """Whether a name has to begin with a letter or `_`."""
        ...

    def tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """What goes into a request as its tools."""
        ...

    def wanted(self, response: Any) -> Iterator[Wanted]:
        """The calls in a model's answer, in their order."""
        ...

    def result(self, call: ModelCall, answer: Answer) -> dict[str, Any]:
        """One result: a message, or the block or item that it is of one."""
        ...

    def messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """All results of one answer, as they are appended to the conversation."""
        ...

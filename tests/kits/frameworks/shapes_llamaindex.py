"""Objects in the documented shape of llama-index-core 0.14. The package itself needs some thirty others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from tests.kits.frameworks.shapes_classes import make_class

TYPES = "llama_index.core.tools.types"


def _get_text(self: Any) -> str:
    return "\n".join(block.text for block in self.blocks if hasattr(block, "text"))


Output: Any = make_class(TYPES, name="ToolOutput", content=property(_get_text))
BaseTool: Any = make_class(TYPES, name="BaseTool")


def make_output(*blocks: Any, raw: Any = None, is_error: bool = False) -> Any:
    """Return the result of a tool, as LlamaIndex has it."""
    value = Output()
    value.blocks, value.raw_output, value.is_error = list(blocks), raw, is_error
    return value


def make_text_block(words: str) -> Any:
    """Return a block of text."""
    return SimpleNamespace(block_type="text", text=words)


def make_image_block(data: bytes | None = None, *, url: str | None = None) -> Any:
    """Return a block with an image in Base64, as LlamaIndex has it."""
    return SimpleNamespace(block_type="image", image=data, path=None, url=url, image_mimetype="image/png")


class FunctionTool(BaseTool):  # type: ignore[misc]
    """A tool over a function, synchronous or not."""

    requires_context = False
    ctx_param_name: str | None = None

    def __init__(self, function: Callable[..., Any], schema: dict[str, Any]) -> None:
        self.real_fn = function
        self.calls: list[str] = []
        self.metadata = SimpleNamespace(
            name=function.__name__, description=function.__doc__, get_parameters_dict=lambda: schema
        )

    def call(self, **arguments: Any) -> Any:
        self.calls.append("call")
        return _read(self.real_fn(**arguments))

    async def acall(self, **arguments: Any) -> Any:
        self.calls.append("acall")
        answer = self.real_fn(**arguments)
        return _read(await answer if inspect.isawaitable(answer) else answer)


def _read(answer: Any) -> Any:
    return answer if isinstance(answer, Output) else make_output(make_text_block(str(answer)), raw=answer)


class BaseToolSpec:
    """A toolset made of some methods of its subclass."""

    spec_functions: Sequence[str] = ()

    def to_tool_list(self) -> list[FunctionTool]:
        return [FunctionTool(getattr(self, name), {"type": "object"}) for name in self.spec_functions]


BaseToolSpec.__module__ = "llama_index.core.tools.tool_spec.base"

"""Errors of pydantic are shown without its links, and without its advice on configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge._app.factory import build_from_file
from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall
from mcp_bridge._engine.pipeline import Pipeline

UNKNOWN = """
from mcp_bridge import tool
class Handle: ...
@tool
def use(handle: Handle) -> int: ...
"""
MODEL = """
from pydantic import BaseModel
class Handle: ...
class Model(BaseModel):
    handle: Handle
"""
VALUE = """
from pydantic import BaseModel
class Model(BaseModel):
    count: int
Model(count="many")
"""
ADVICE = ("For further information", "errors.pydantic.dev", "arbitrary_types_allowed", "calling handler")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (UNKNOWN, "for <class 'pydantic_unknown.Handle'>. Annotate it with another type, or give input_schema="),
        (MODEL, "for <class 'pydantic_model.Handle'>."),
        (VALUE, "Input should be a valid integer"),
    ],
    ids=["unknown", "model", "value"],
)
async def test_a_file_that_cannot_be_loaded_is_explained_once(
    tmp_path: Path, code: str, message: str, request: pytest.FixtureRequest
) -> None:
    file = tmp_path / f"pydantic_{request.node.callspec.id}.py"
    file.write_text(code)
    bridge = build_from_file(file)
    async with bridge.run_sources():
        with pytest.raises(SourceError) as error_info:
            await bridge.wait_until_started()
    assert message in str(error_info.value)
    assert [words for words in ADVICE if words in str(error_info.value)] == []


async def test_a_call_that_shows_its_error_shows_no_links() -> None:
    def fail(_: object) -> None:
        from pydantic import TypeAdapter

        TypeAdapter(int).validate_python("many")

    registry = ToolRegistry(pipeline=Pipeline(expose_errors=True))
    registry.register(ToolEntry("a", "A.", fail))
    result = await registry.dispatch(ToolCall(id="1", name="a", arguments={}), RunningCall())
    assert "Input should be a valid integer" in result.error_text
    assert [words for words in ADVICE if words in result.error_text] == []

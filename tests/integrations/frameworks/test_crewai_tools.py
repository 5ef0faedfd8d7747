"""CrewAI tools. These are objects of the documented shape: see `shapes_crewai.py`."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from mcp_bridge._integrations.frameworks.crewai import build_entry
from mcp_bridge._integrations.frameworks.discovery import convert_tool
from tests.kits.frameworks.shapes_crewai import BaseTool, CrewStructuredTool, ToolFailure
from tests.kits.frameworks.shapes_kit import call_text, get_input_schema, serve_tools

BAKED = 'Tool Name: shop\nTool Arguments: {"item": {}}\nTool Description: Orders an item.'


class Order(BaseModel):
    item: str
    count: int = 1

    @field_validator("count")
    @classmethod
    def _some(cls, count: int) -> int:
        if count < 1:
            raise ValueError("at least one")
        return count


class Shop(BaseTool):
    def _run(self, item: str, count: int) -> Any:
        if item == "gold":
            return ToolFailure(message="gold is sold out", code="sold_out")
        if item == "lead":
            raise RuntimeError("secret detail")
        return {"item": item, "count": count}


def make_shop(**options: Any) -> Shop:
    return Shop(**{"name": "Shop", "description": "Orders an item.", "args_schema": Order, **options})


async def test_a_tool_is_listed_with_its_schema_and_called_with_its_defaults() -> None:
    assert convert_tool(make_shop()) is not None
    async with serve_tools(build_entry(make_shop())) as client:
        input_schema = await get_input_schema(client, "Shop")
        assert input_schema["required"] == ["item"]
        assert (await client.call_tool("Shop", {"item": "tea"})).structured_content == {"item": "tea", "count": 1}


@pytest.mark.parametrize("text", [BAKED, "Orders an item."])
def test_the_prefix_of_a_description_for_prompts_is_removed(text: str) -> None:
    assert build_entry(make_shop(description=text)).description == "Orders an item."


def test_a_similar_description_without_the_prefix_is_not_changed() -> None:
    text = "Writes a Tool Description: the last line of a prompt."
    assert build_entry(make_shop(description=text)).description == text


async def test_a_failure_has_its_text_and_an_exception_has_none() -> None:
    async with serve_tools(build_entry(make_shop())) as client:
        assert await call_text(client, "Shop", item="gold") == "sold_out: gold is sold out"
        text = await call_text(client, "Shop", item="lead")
        assert text.startswith("internal_error")
        assert "secret" not in text


async def test_arguments_that_only_a_validator_rejects_are_invalid_arguments() -> None:
    async with serve_tools(build_entry(make_shop())) as client:
        text = await call_text(client, "Shop", item="tea", count=0)
    assert text.startswith("invalid_arguments")
    assert "at least one" in text


@pytest.mark.parametrize("limit_result", ["failure", "text"])
async def test_a_reached_usage_limit_is_an_error_in_all_versions(limit_result: str) -> None:
    async with serve_tools(build_entry(make_shop(max_usage_count=1, says_limits=limit_result))) as client:
        assert not (await client.call_tool("Shop", {"item": "tea"})).is_error
        assert (await call_text(client, "Shop", item="tea")).startswith(
            "tool_error: Tool 'Shop' has reached its usage limit of 1 times"
        )


async def test_a_structured_tool_is_served_with_its_usage_limit() -> None:
    framework_tool = CrewStructuredTool(
        name="greet", description="Greets.", func=lambda who="you": f"Hi {who}", max_usage_count=1
    )
    async with serve_tools(build_entry(framework_tool)) as client:
        assert await get_input_schema(client, "greet") == {"type": "object"}
        assert await call_text(client, "greet", who="Ann") == "Hi Ann"
        assert await call_text(client, "greet") == "tool_error: Tool 'greet' has reached its maximum usage limit."

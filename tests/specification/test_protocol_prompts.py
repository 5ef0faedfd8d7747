"""Prompts and completion, in both eras."""

from __future__ import annotations

import base64
import json

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.client.raw_client import Json, RawClient
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_offers import LANGUAGES
from tests.kits.protocol.protocol_tools import PNG, SECRET, WAV
from tests.kits.protocol.protocol_ways import Connected

REVIEW = {"type": "ref/prompt", "name": "review"}
NOTES = {"type": "ref/resource", "uri": "test://people/{name}/notes/{number}"}


async def complete(raw: RawClient, ref: Json, name: str, value: str, **arguments: str) -> Json:
    """Complete an argument, and return the completion."""
    params = {
        "ref": ref,
        "argument": {"name": name, "value": value},
        **({"context": {"arguments": arguments}} if arguments else {}),
    }
    completion: Json = (await raw.get_result("completion/complete", params))["completion"]
    return completion


@proves("prompts/list")
async def test_prompts_are_listed_with_their_arguments(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        prompts = {prompt["name"]: prompt for prompt in (await raw.get_result("prompts/list"))["prompts"]}
        assert (prompts["greeting"]["title"], prompts["greeting"]["description"]) == ("A greeting", "Says hello.")
        language, lines, *_ = prompts["review"]["arguments"]
        assert (language["name"], language["required"]) == ("language", True)
        assert language["description"] == "The language it is written in."
        assert (lines["name"], lines.get("required", False)) == ("lines", False)


@proves("prompts/messages")
async def test_messages_have_roles_and_content(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        (hello,) = (await raw.get_result("prompts/get", {"name": "greeting"}))["messages"]
        assert hello == {"role": "user", "content": {"type": "text", "text": "Hello!"}}
        look, text, image, audio, *_ = (await raw.get_result("prompts/get", {"name": "gallery"}))["messages"]
        assert (look["role"], look["content"]["text"], text["content"]["text"]) == ("assistant", "Look.", "text")
        assert (image["role"], image["content"]["type"], image["content"]["mimeType"]) == ("user", "image", "image/png")
        assert base64.b64decode(image["content"]["data"], validate=True) == PNG
        assert (audio["content"]["type"], audio["content"]["mimeType"]) == ("audio", "audio/wav")
        assert base64.b64decode(audio["content"]["data"], validate=True) == WAV


@proves("prompts/embedded")
async def test_embedded_resources_have_a_uri_a_media_type_and_text_or_base64(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        *_, text, binary = (await raw.get_result("prompts/get", {"name": "gallery"}))["messages"]
        assert text["content"]["type"] == binary["content"]["type"] == "resource"
        assert text["content"]["resource"] == {"uri": "test://text", "mimeType": "text/plain", "text": "embedded"}
        resource = binary["content"]["resource"]
        assert (resource["uri"], resource["mimeType"]) == ("test://bytes", "application/octet-stream")
        assert base64.b64decode(resource["blob"], validate=True) == b"\x00\xff"


@proves("prompts/unknown")
async def test_an_unknown_prompt_is_an_invalid_parameter(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        assert (await raw.get_error("prompts/get", {"name": "nothing"}))["code"] == -32602
    async with connected.client() as client:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt("nothing")
        assert caught.value.error.code == -32602


@proves("prompts/missing-arguments")
async def test_a_missing_argument_is_an_invalid_parameter_that_is_named(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for params in ({}, {"arguments": {}}, {"arguments": {"lines": "3"}}):
            error = await raw.get_error("prompts/get", {"name": "review", **params})
            assert error["code"] == -32602
            assert "language" in json.dumps(error)


@proves("prompts/arguments-validated")
async def test_arguments_and_messages_of_a_prompt_are_validated(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        good = {"name": "review", "arguments": {"language": "go", "lines": "7"}}
        assert (await raw.get_result("prompts/get", good))["messages"][0]["content"]["text"] == "Review 7 lines of go."
        bad = {"name": "review", "arguments": {"language": "go", "lines": "many"}}
        error = await raw.get_error("prompts/get", bad)
        assert error["code"] == -32602
        assert "lines" in json.dumps(error)
        odd = types.GetPromptResult.model_validate(await raw.get_result("prompts/get", {"name": "odd_prompt"}))
        assert len(odd.messages) == 3


@proves("prompts/internal-errors")
async def test_a_prompt_that_fails_inside_is_an_internal_error(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        error = await raw.get_error("prompts/get", {"name": "crash_prompt"})
        assert error["code"] == -32603
        assert SECRET not in json.dumps(error)


@proves("completion/references", "completion/ranked")
async def test_values_are_ranked(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        assert (await complete(raw, REVIEW, "language", ""))["values"] == LANGUAGES
        completion = await complete(raw, REVIEW, "language", "java")
        assert completion["values"] == ["java", "javascript"]
        assert not completion.get("hasMore")
        assert (await complete(raw, REVIEW, "language", "Script"))["values"][:2] == ["javascript", "typescript"]
        assert (await complete(raw, REVIEW, "language", "zzz"))["values"] == []
        assert (await complete(raw, NOTES, "name", "ann"))["values"] == ["ann", "anna"]


@proves("completion/at-most-100")
async def test_there_are_at_most_100_values(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        completion = await complete(raw, REVIEW, "many", "value")
        assert len(completion["values"]) == len(set(completion["values"])) == 100
        assert completion["hasMore"] is True
        assert completion.get("total", 150) == 150


@proves("completion/context")
async def test_arguments_in_the_context_influence_the_values(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        assert (await complete(raw, REVIEW, "framework", "", language="python"))["values"] == ["flask", "django"]
        assert (await complete(raw, REVIEW, "framework", "g", language="go"))["values"] == ["gin"]
        assert (await complete(raw, REVIEW, "framework", ""))["values"] == []


@proves("completion/inputs-validated")
async def test_completion_of_an_unknown_or_malformed_reference_is_an_invalid_parameter(connected: Connected) -> None:
    argument = {"name": "language", "value": ""}
    async with connected.raw_client() as raw:
        for params in (
            {"ref": {"type": "ref/prompt", "name": "nothing"}, "argument": argument},
            {"ref": {"type": "ref/resource", "uri": "test://nothing/{x}"}, "argument": argument},
            {"ref": {"type": "ref/tool", "name": "echo"}, "argument": argument},
            {"ref": REVIEW, "argument": {"name": "language"}},
            {"ref": REVIEW, "argument": {"name": "language", "value": 7}},
            {"ref": REVIEW},
        ):
            assert (await raw.get_error("completion/complete", params))["code"] == -32602, params


@proves("completion/no-disclosure")
async def test_completion_discloses_nothing_if_it_fails_or_does_not_exist(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for name in ("broken", "lines", "unheard_of"):
            params = {"ref": REVIEW, "argument": {"name": name, "value": ""}}
            answer = await raw.request("completion/complete", params)
            assert "division" not in json.dumps(answer)
            assert "error" in answer or answer["result"]["completion"]["values"] == []

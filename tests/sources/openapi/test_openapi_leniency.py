"""Any sensible reading of a document is accepted: its requests reach the API, whatever the style of the document."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.kits.openapi.api_server import ApiServer, Json, get_text, list_tools, make_document, serve_document

OWNER = {"type": "object", "properties": {"id": {"type": "integer"}}}
PET = {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}}
KINDS = {"propertyName": "kind", "mapping": {"cat": "#/components/schemas/Cat", "dog": "Dog"}}


def refer(name: str, **beside: Any) -> Json:
    return {"$ref": f"#/components/schemas/{name}", **beside}


def make_body_document(schema: Json, version: str = "3.0.3", **schemas: Any) -> Json:
    """Return a document with the operation `run` and a body with this schema."""
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    paths = {"/x": {"post": {"operationId": "run", "requestBody": body}}}
    return make_document(paths, version, components={"schemas": schemas})


async def call_with_bodies(folder: Path, api: ApiServer, document: Json, *bodies: Any) -> list[bool]:
    """Call `run` with each body, and return whether the API received it."""
    sent = []
    async with serve_document(folder, document, server=api.url) as client:
        for body in bodies:
            api.received.clear()
            result = await client.call_tool("run", {"body": body})
            sent.append(not result.is_error)
            assert [json.loads(request.body) for request in api.received] == ([body] if sent[-1] else []), get_text(
                result
            )
    return sent


@pytest.mark.parametrize(
    ("alternatives", "bodies"),
    [
        ([refer("First"), refer("Next")], [{"cursor": "x"}, {"limit": 5}, {}]),
        ([{"type": "integer"}, {"type": "number"}], [1, 1.5]),
        ([{"type": "string"}, {"type": "string", "format": "uuid"}], ["x"]),
    ],
)
@pytest.mark.parametrize("beside", [{}, {"anyOf": [{}, {"type": "boolean"}]}, {"allOf": [{}]}])
async def test_alternatives_may_overlap(
    alternatives: list[Json], bodies: list[Any], beside: Json, api: ApiServer, tmp_path: Path
) -> None:
    first = {"type": "object", "properties": {"limit": {"type": "integer"}}}
    then = {"type": "object", "properties": {"cursor": {"type": "string"}}}
    document = make_body_document({"oneOf": alternatives, **beside}, First=first, Next=then)
    assert all(await call_with_bodies(tmp_path, api, document, *bodies))
    assert await call_with_bodies(tmp_path, api, document, None) == [False]


def extend_pet(**properties: Json) -> Json:
    return {"allOf": [refer("Pet"), {"type": "object", "properties": properties}]}


@pytest.mark.parametrize(
    "parent",
    [
        {**PET, "discriminator": KINDS},
        {**PET, "discriminator": {"propertyName": "kind"}},
        {**PET, "discriminator": KINDS, "oneOf": [refer("Cat"), refer("Dog")]},
        {
            **PET,
            "discriminator": KINDS,
            "anyOf": [refer("Cat"), refer("Dog")],
            "additionalProperties": False,
        },
    ],
)
async def test_a_schema_shows_its_subtypes(parent: Json, api: ApiServer, tmp_path: Path) -> None:
    schemas = {"Pet": parent, "Cat": extend_pet(claws={"type": "boolean"}), "Dog": extend_pet(bark={"type": "string"})}
    document = make_body_document(refer("Pet"), **schemas)
    bodies = await call_with_bodies(
        tmp_path, api, document, {"kind": "cat", "claws": True}, {"kind": "dog"}, {"claws": 1}
    )
    assert bodies == [True, True, False]
    async with serve_document(tmp_path, document, server=api.url) as client:
        schema = (await list_tools(client))["run"].input_schema
    schema_text = json.dumps(schema)
    assert "claws" in schema_text
    assert "bark" in schema_text
    cat = next(key for key in schema["$defs"] if key.startswith("Cat"))
    alternatives = schema["$defs"]["Pet"]["anyOf"]
    descriptions = {alternative.get("$ref"): alternative.get("description") for alternative in alternatives}
    assert descriptions[f"#/$defs/{cat}"] in ("If kind is cat.", "If kind is Cat.")


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [refer("Closed"), {"properties": {"b": {"type": "string"}}, "additionalProperties": False}]},
        {"allOf": [refer("Alias"), {"properties": {"b": {"type": "string"}}}], "additionalProperties": False},
        {"properties": {"b": {"type": "string"}}, "oneOf": [refer("Closed")], "additionalProperties": False},
        {"properties": {"b": {"type": "string"}}, "allOf": [refer("Closed")]},
        {"allOf": [{"anyOf": [refer("Closed")]}, {"properties": {"b": {"type": "string"}}}]},
        {"allOf": [refer("Counts"), {"properties": {"b": {"type": "string"}}}]},
    ],
)
async def test_a_closed_schema_can_be_extended(schema: Json, api: ApiServer, tmp_path: Path) -> None:
    closed_schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    counts = {**closed_schema, "additionalProperties": {"type": "integer"}}
    document = make_body_document(schema, Closed=closed_schema, Alias={"allOf": [refer("Closed")]}, Counts=counts)
    assert await call_with_bodies(tmp_path, api, document, {"a": 1, "b": "x"}, {"a": "x"}) == [True, False]


@pytest.mark.parametrize("schema", [refer("Closed"), {"allOf": [refer("Closed")]}, {"oneOf": [refer("Closed")]}])
async def test_a_closed_schema_that_nothing_extends_stays_closed(schema: Json, api: ApiServer, tmp_path: Path) -> None:
    closed_schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    document = make_body_document(schema, Closed=closed_schema)
    assert await call_with_bodies(tmp_path, api, document, {"a": 1}, {"b": "x"}) == [True, False]


async def test_a_response_can_be_sent_back_as_a_request(api: ApiServer, tmp_path: Path) -> None:
    base = {"type": "object", "properties": {"id": {"type": "integer", "readOnly": True}, "name": {"type": "string"}}}
    closed_schema = {**base, "required": ["id"], "additionalProperties": False}
    extending_schema = {"allOf": [refer("Base"), {"required": ["id", "name"]}], "required": ["id"]}
    redefining_schema = {"allOf": [refer("Base"), {"properties": {"id": {"type": "integer"}}, "required": ["id"]}]}
    for schema in (closed_schema, extending_schema, redefining_schema):
        document = make_body_document(schema, Base=base)
        assert await call_with_bodies(tmp_path, api, document, {"name": "x"}, {"id": 1, "name": "x"}) == [True, True]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(
    "owner",
    [
        {"nullable": True, "allOf": [refer("Owner")]},
        {"nullable": True, "type": "object", "allOf": [refer("Owner")]},
        {"nullable": True, "oneOf": [refer("Owner"), {"type": "string"}]},
        {"nullable": True, "anyOf": [refer("Owner")]},
        refer("Owner", nullable=True),
        refer("MaybeOwner"),
        {"type": "object", "properties": {"id": {"type": "integer"}}, "nullable": True},
        {"type": "object", "enum": [{"id": 1}], "nullable": True},
    ],
)
async def test_null_is_allowed_wherever_nullable_is_written(
    owner: Json, version: str, api: ApiServer, tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {"owner": owner}}
    document = make_body_document(schema, version, Owner=OWNER, MaybeOwner={**OWNER, "nullable": True})
    bodies = [{"owner": None}, {"owner": {"id": 1}}, {"owner": 1}]
    assert await call_with_bodies(tmp_path, api, document, *bodies) == [True, True, False]


@pytest.mark.parametrize(
    ("schema", "accepted", "rejected"),
    [
        ({"type": "string", "enum": [1.0, 2.0]}, ["1.0", "2", 1], ["3"]),
        ({"type": "integer", "enum": ["1", "2"]}, [1, "2"], [3]),
        ({"type": "string", "enum": [True, None, "x"]}, ["true", "x", None], ["y"]),
        ({"type": "boolean", "enum": ["true", "false"]}, [True, "false"], ["x"]),
        ({"type": "number", "enum": ["1.5"]}, [1.5, "1.5"], [2]),
        ({"type": "integer", "enum": ["asc", "desc"]}, ["asc"], [1]),
        ({"type": "array", "items": {"type": "string"}, "enum": ["a", "b"]}, [["a"], []], [["c"], "a"]),
        ({"enum": ["yes", " no"]}, ["yes", "no", " no"], ["x"]),
        ({"type": "object", "enum": ["a"]}, [{"a": 1}], ["a"]),
        ({"type": "string", "enum": ["long"], "maxLength": 2, "pattern": "^x$"}, ["long"], ["x"]),
        ({"type": "string", "minLength": 5, "maxLength": 2}, ["abc"], [1]),
        ({"type": "string", "pattern": "/^[a-z]+$/"}, ["abc"], ["1"]),
        ({"type": "string", "pattern": "/^[a-z]+$/i"}, ["ABC", "1"], []),
        ({"type": "string", "pattern": "/a/"}, ["xax", "/a/"], []),
        ({"not": {"oneOf": [{"type": "string"}, {"type": "string"}]}}, ["x", 1], []),
        ({"not": {"type": "string"}}, [1], ["x"]),
    ],
)
async def test_listed_values_and_patterns_are_read_in_their_intended_meaning(
    schema: Json, accepted: list[Any], rejected: list[Any], api: ApiServer, tmp_path: Path
) -> None:
    document = make_body_document({"type": "object", "properties": {"value": schema}})
    bodies = [{"value": value} for value in (*accepted, *rejected)]
    expected = [True] * len(accepted) + [False] * len(rejected)
    assert await call_with_bodies(tmp_path, api, document, *bodies) == expected


async def test_a_form_can_have_a_discriminator(api: ApiServer, tmp_path: Path) -> None:
    schema = {**PET, "discriminator": KINDS, "nullable": True}
    schema["properties"] = {**PET["properties"], "photo": {"type": "string", "format": "binary"}}
    document = make_body_document(schema, Cat=extend_pet(), Dog=extend_pet(), Pet=PET)
    content = document["paths"]["/x"]["post"]["requestBody"]["content"]
    content["multipart/form-data"] = content.pop("application/json")
    async with serve_document(tmp_path, document, server=api.url) as client:
        result = await client.call_tool("run", {"body": {"kind": "cat", "photo": {"data": "QUJD"}}})
    assert not result.is_error
    assert b"ABC" in api.received[0].body


@pytest.mark.parametrize("number", [1, 30, 300])
async def test_schemas_that_extend_each_other_cost_little(number: int, api: ApiServer, tmp_path: Path) -> None:
    # Each schema extends the next two twice, is closed, and has subtypes that lead back to it.
    schemas = {
        f"S{n}": {
            "allOf": [refer(f"S{(n + step) % number}") for step in (1, 2, 1)],
            "oneOf": [refer(f"S{(n + step) % number}") for step in (1, 2)],
            "discriminator": {"propertyName": "kind"},
            "additionalProperties": False,
            "required": ["kind"],
        }
        for n in range(number)
    }
    start_time = time.process_time()
    document = make_body_document(refer("S0"), **schemas)
    async with serve_document(tmp_path, document, server=api.url) as client:
        tool = (await list_tools(client))["run"]
        await client.call_tool("run", {"body": {"kind": "x"}})
    assert len(json.dumps(tool.input_schema)) < 200_000
    assert time.process_time() - start_time < 10

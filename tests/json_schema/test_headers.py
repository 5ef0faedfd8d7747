"""x-mcp-header: from a parameter's annotation into its schema, and rejected where MCP or common sense forbids it."""

import enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map
from pydantic import BaseModel, Field, SecretStr
from typing_extensions import TypeAliasType

from mcp_bridge import tool
from mcp_bridge._contracts.parameters import Header
from mcp_bridge._json_schema.headers import check_headers
from mcp_bridge.testing import connect
from tests.kits.fuzzing import use_examples
from tests.kits.wire.speaking import build_registry, list_tools


class Region(enum.Enum):
    EAST = "east"
    WEST = "west"


class Level(enum.IntEnum):
    LOW = 1


Named = TypeAliasType("Named", str)


class Place(BaseModel):
    region: Annotated[str, Header("Region")]


def infer_region_schema(annotation: Any, **default: Any) -> dict[str, Any]:
    """Return the schema of a parameter `region` of this type."""

    def query(region: annotation, other: int = 1) -> str:
        """Ask."""
        return str(region)

    if default:
        query.__defaults__ = (default["default"], 1)
    entry: Any = tool(query)
    return dict(entry.tool_entry.input_schema["properties"]["region"])


# From an annotation


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (Annotated[bool, Header("Region")], {"type": "boolean"}),
        (Annotated[Literal["a", "b"], Header("Region")], {"type": "string", "enum": ["a", "b"]}),
        (Annotated[Level, Header("Region")], {"type": "integer", "enum": [1]}),
        (Annotated[Named, Header("Region")], {"type": "string"}),
        (
            Annotated[str, Field(min_length=1, description="Where."), Header("Region")],
            {"type": "string", "minLength": 1, "description": "Where."},
        ),
        (
            Annotated[Region, Header("Region"), Field(description="Where.")],
            {"type": "string", "enum": ["east", "west"], "description": "Where."},
        ),
    ],
)
def test_a_header_is_in_the_schema_of_its_parameter(annotation: Any, expected: dict[str, Any]) -> None:
    assert infer_region_schema(annotation) == {**expected, "x-mcp-header": "Region"}


def test_a_default_makes_a_header_optional() -> None:
    assert infer_region_schema(Annotated[str, Header("Region")], default="east")["default"] == "east"


def test_an_enum_that_is_a_header_is_a_plain_parameter_elsewhere() -> None:
    @tool
    def move(start: Annotated[Region, Header("From")], end: Region) -> str:
        return f"{start.value} {end.value}"

    schema: dict[str, Any] = move.tool_entry.input_schema  # type: ignore[attr-defined]
    assert schema["properties"]["end"] == {"type": "string", "enum": ["east", "west"]}
    assert schema["properties"]["start"]["enum"] == ["east", "west"]
    assert "title" not in schema["properties"]["start"]
    assert move.tool_entry.handler({"start": "east", "end": "west"}) == "east west"  # type: ignore[attr-defined]


def test_a_property_of_a_model_can_be_a_header() -> None:
    assert infer_region_schema(Place)["properties"]["region"] == {"type": "string", "x-mcp-header": "Region"}


async def test_clients_receive_and_accept_headers() -> None:
    @tool
    def query(region: Annotated[Region, Header("Region")], limit: Annotated[int, Header("Limit")] = 5) -> str:
        return f"{region.value} {limit}"

    async with connect(build_registry(query.tool_entry)) as client:  # type: ignore[attr-defined]
        [definition] = await list_tools(client)
    assert find_invalid_x_mcp_header(definition["inputSchema"]) is None
    assert x_mcp_header_map(definition["inputSchema"]) == {("region",): "Region", ("limit",): "Limit"}


TYPE = "a header is of one type, string, integer or boolean. A default, not null, makes it optional"
SECRET = "this is a secret"


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (Annotated[float, Header("Region")], TYPE),
        (Annotated[str | None, Header("Region")], TYPE),
        (Annotated[str | int, Header("Region")], TYPE),
        (Annotated[Any, Header("Region")], TYPE),
        (Annotated[Place, Header("Other")], TYPE),
        (Annotated[str, Header("")], "'' is not a header name"),
        (Annotated[str, Header(5)], "a header's name is text, not int"),  # type: ignore[arg-type]
        (Annotated[str, Header("Region")] | None, "a header is a parameter itself"),
        (list[Annotated[str, Header("Region")]], "a header is a parameter itself"),
        (list[Place], "items/properties/region/x-mcp-header: a header is a parameter itself"),
        (Annotated[SecretStr, Header("Region")], SECRET),
        (Annotated[str, Field(json_schema_extra={"writeOnly": True}), Header("Region")], SECRET),
        (Annotated[str, Header("Api-Key")], "'Api-Key' is the name of a secret"),
    ],
)
def test_the_decorator_rejects_a_header_that_mcp_forbids(annotation: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message) as error_info:
        infer_region_schema(annotation)
    assert "query: #/" in str(error_info.value)


def test_two_headers_with_the_same_name_in_any_case_are_rejected() -> None:
    with pytest.raises(TypeError, match="#/properties/b/x-mcp-header: #/properties/a/x-mcp-header has the same name"):

        @tool
        def query(a: Annotated[str, Header("Region")], b: Annotated[str, Header("REGION")]) -> None: ...


def test_a_header_with_the_name_of_a_secret_is_rejected() -> None:
    with pytest.raises(TypeError, match=r"'api_key' is the name of a secret\. Headers are visible and logged"):

        @tool
        def query(api_key: Annotated[str, Header("Key")]) -> None: ...


# Schemas written by hand


def make_property(**more: Any) -> dict[str, Any]:
    return {"type": "string", "x-mcp-header": "Region", **more}


def make_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    "schema",
    [
        "text",
        {},
        True,
        make_object(
            region=make_property(type="integer"),
            place=make_object(other=make_property(type="boolean", **{"x-mcp-header": "Other"})),
        ),
        make_object(region={"type": "string", "default": {"x-mcp-header": "data"}, "enum": [{"x-mcp-header": "data"}]}),
        {"properties": "text", "allOf": {"x-mcp-header": 1}, "not": 5},
        make_object(**{"x-mcp-header": {"type": "string"}}),
        make_object(region=make_property(**{"x-mcp-header": "!#$%&'*+-.^_`|~09azAZ"})),
        make_object(
            max_tokens=make_property(type="integer"),
            secretary=make_property(**{"x-mcp-header": "By"}),
            tokenize={"type": "boolean"},
        ),
    ],
)
def test_a_valid_schema_has_no_problems(schema: Any) -> None:
    assert check_headers(schema) == []
    assert find_invalid_x_mcp_header(schema) is None


@pytest.mark.parametrize("name", ["", "a b", "a\r\nX: 1", "ä", "a:b", 5, ["a"]])
def test_a_header_has_a_name_that_http_allows(name: Any) -> None:
    schema = make_object(region=make_property(**{"x-mcp-header": name}))
    [line] = check_headers(schema)
    assert line.startswith("#/properties/region/x-mcp-header: ")
    assert find_invalid_x_mcp_header(schema) is not None


@pytest.mark.parametrize("type_name", ["number", "object", ["string"], None])
def test_a_header_has_one_primitive_type(type_name: Any) -> None:
    schema = make_object(region=make_property(type=type_name))
    assert check_headers(schema) == [f"#/properties/region/x-mcp-header: {TYPE}"]
    assert find_invalid_x_mcp_header(schema) is not None


ELSEWHERE = {
    "x-mcp-header": {"x-mcp-header": "Region"},
    "items/x-mcp-header": {"items": make_property()},
    "items/properties/region/x-mcp-header": {"items": make_object(region=make_property())},
    "prefixItems/1/x-mcp-header": {"prefixItems": [{}, make_property()]},
    "anyOf/0/x-mcp-header": {"anyOf": [make_property(), {"type": "null"}]},
    "oneOf/0/properties/region/x-mcp-header": {"oneOf": [make_object(region=make_property())]},
    "allOf/0/properties/region/x-mcp-header": {"allOf": [make_object(region=make_property())]},
    "not/properties/region/x-mcp-header": {"not": make_object(region=make_property())},
    "if/properties/region/x-mcp-header": {"if": make_object(region=make_property())},
    "then/properties/region/x-mcp-header": {"then": make_object(region=make_property())},
    "else/properties/region/x-mcp-header": {"else": make_object(region=make_property())},
    "patternProperties/^a/x-mcp-header": {"patternProperties": {"^a": make_property()}},
    "additionalProperties/x-mcp-header": {"additionalProperties": make_property()},
    "dependentSchemas/a/properties/region/x-mcp-header": {
        "dependentSchemas": {"a": make_object(region=make_property())}
    },
    "$defs/Place/properties/region/x-mcp-header": {"$defs": {"Place": make_object(region=make_property())}},
    "definitions/Place/x-mcp-header": {"definitions": {"Place": make_property()}},
    "propertyNames/x-mcp-header": {"propertyNames": make_property()},
    "contentSchema/x-mcp-header": {"contentSchema": make_property()},
}
"""Schemas that have a header where no parameter is, by its place in them."""


def test_a_header_is_reached_by_properties_alone() -> None:
    for place, schema in ELSEWHERE.items():
        [line] = check_headers(schema)
        assert line.startswith(f"#/{place}: a header is a parameter itself or a property in it")
        assert find_invalid_x_mcp_header(schema) is not None


def test_schemas_in_a_tuple_are_searched_as_those_in_a_list() -> None:
    [line] = check_headers(make_object(region={"anyOf": (make_property(), {"type": "null"})}))
    assert line.startswith("#/properties/region/anyOf/0/x-mcp-header: a header is a parameter itself")


def test_every_header_that_is_wrong_has_a_line() -> None:
    schema = make_object(
        a=make_property(),
        b=make_property(type="number"),
        c=make_object(d=make_property(**{"x-mcp-header": "region"})),
        e=make_property(format="password"),
    )
    assert [line.split(": ")[0] for line in check_headers(schema)] == [
        "#/properties/b/x-mcp-header",
        "#/properties/c/properties/d/x-mcp-header",
        "#/properties/e/x-mcp-header",
    ]


def test_a_schema_that_contains_itself_is_judged_too() -> None:
    schema: dict[str, Any] = make_object(region=make_property(type="number"))
    schema["properties"]["again"] = schema["not"] = schema
    assert f"#/properties/region/x-mcp-header: {TYPE}" in check_headers(schema)


# Secrets


def make_schema_with_headers(*names: str) -> dict[str, Any]:
    """Return a schema with a header for each of these properties."""
    return make_object(**{name: make_property(**{"x-mcp-header": f"H{number}"}) for number, name in enumerate(names)})


def test_a_property_with_the_name_of_a_secret_is_rejected() -> None:
    names = [
        "password", "Password", "user_password", "userPassword", "password2", "passwd", "passphrase", "secret",
        "client-secret", "clientSecret", "CLIENT_SECRET", "token", "access_token", "refreshToken", "token_id",
        "api_key", "api-key", "apiKey", "APIKey", "apikey", "x_api_key_id", "authorization", "Authorization",
        "credential", "credentials", "private_key", "privateKeyPem", "privatekey", "access_key", "AccessKeyId",
        "secretKey", "signing_key",
    ]  # fmt: skip
    lines = check_headers(make_schema_with_headers(*names))
    assert len(lines) == len(names)
    for name, line in zip(names, lines, strict=True):
        assert f"'{name}' is the name of a secret. Headers are visible and logged on their way" in line


def test_a_word_that_only_looks_like_a_secret_is_allowed() -> None:
    names = ["max_tokens", "tokenizer", "secretary", "key", "access", "monkey", "author", "api", "keyApi"]
    assert check_headers(make_schema_with_headers(*names)) == []


@pytest.mark.parametrize(
    "schema",
    [
        make_object(key=make_property(format="password")),
        make_object(key=make_property(writeOnly=True)),
        make_object(credentials=make_object(value=make_property())),
        make_object(value=make_property(**{"x-mcp-header": "Authorization"})),
    ],
)
def test_a_secret_is_rejected_by_its_name_format_or_write_only(schema: dict[str, Any]) -> None:
    [line] = check_headers(schema)
    assert "secret" in line


def test_a_secret_that_is_not_a_header_is_allowed() -> None:
    assert check_headers(make_object(password={"type": "string", "format": "password"})) == []


# The same judgement as the SDK's


NAMES = st.sampled_from(["Region", "region", "Other", "", "a b", 5])
LEAF = st.fixed_dictionaries(
    {}, optional={"type": st.sampled_from(["string", "integer", "number", ["string"]]), "x-mcp-header": NAMES}
)


def generate_nested_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": properties,
            "$defs": properties,
            "items": inner,
            "not": inner,
            "anyOf": st.lists(inner, max_size=2),
            "default": inner,
            "type": st.sampled_from(["object", "string"]),
            "x-mcp-header": NAMES,
        },
    )


@use_examples(40)
@given(st.recursive(LEAF, generate_nested_schemas, max_leaves=8))
def test_exactly_the_headers_that_clients_would_drop_are_reported(schema: Any) -> None:
    assert (check_headers(schema) == []) == (find_invalid_x_mcp_header(schema) is None)

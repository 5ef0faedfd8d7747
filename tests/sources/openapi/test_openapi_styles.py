"""How parameters and bodies are written, compared with the specification, RFC 6570 and an independent parser."""

from __future__ import annotations

import base64
import functools
import json
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import anyio
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openapi_core import OpenAPI
from openapi_core.contrib.werkzeug import WerkzeugOpenAPIRequest
from uritemplate import expand
from werkzeug.test import EnvironBuilder
from werkzeug.wrappers import Request

from mcp_bridge._runtime.http_client.addresses import AddressPolicy, parse_networks
from mcp_bridge._runtime.http_client.client import HttpClient
from mcp_bridge._runtime.http_client.requests import ApiRequest
from mcp_bridge._sources.openapi.bodies import build_body_writer
from mcp_bridge._sources.openapi.document import ApiDocument
from mcp_bridge._sources.openapi.operations import DeclaredBody
from mcp_bridge._sources.openapi.parameters import Parameter
from mcp_bridge._sources.openapi.requests import RequestBuilder
from mcp_bridge._sources.openapi.schemas import SchemaConverter
from mcp_bridge._upstream.trust.screening import TextScreen
from tests.kits.openapi.api_server import ApiServer, Json, Received, make_document, run_api

TLS = ssl.create_default_context()
COLORS = ["blue", "black", "brown"]
RGB = {"R": 100, "G": 200, "B": 150}
# OpenAPI 3.1.1, section 4.8.12.4 "Style Examples".
TABLE = [
    ("matrix", False, [";color", ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"]),
    ("matrix", True, [";color", ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"]),
    ("label", False, [None, ".blue", ".blue,black,brown", ".R,100,G,200,B,150"]),
    ("label", True, [None, ".blue", ".blue.black.brown", ".R=100.G=200.B=150"]),
    ("simple", False, [None, "blue", "blue,black,brown", "R,100,G,200,B,150"]),
    ("simple", True, [None, "blue", "blue,black,brown", "R=100,G=200,B=150"]),
    ("form", False, ["color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"]),
    ("form", True, ["color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"]),
    ("spaceDelimited", False, [None, None, "color=blue%20black%20brown", "color=R%20100%20G%20200%20B%20150"]),
    ("pipeDelimited", False, [None, None, "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150"]),
    ("deepObject", True, [None, None, None, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"]),
]
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
plain_texts = st.text("abc XYZ09-_", min_size=1, max_size=8).filter(lambda text: text == text.strip())
EXAMPLES = settings(max_examples=50)


@pytest.mark.parametrize(("style", "explode", "expected"), TABLE)
def test_styles_are_those_of_the_specification(style: str, explode: bool, expected: list[str | None]) -> None:
    for value, text in zip(("", "blue", COLORS, RGB), expected, strict=True):
        if text is not None:
            is_path = style in ("matrix", "label", "simple")
            parameter = Parameter("color", "path" if is_path else "query", "color", style, explode)
            written = parameter.write_path(value) if is_path else "&".join(parameter.write_query(value))
            assert written == text


OPERATORS = {"simple": "", "label": ".", "matrix": ";", "form": "?"}


@EXAMPLES
@given(
    style=st.sampled_from(sorted(OPERATORS)),
    explode=st.booleans(),
    value=texts | st.lists(texts, min_size=1, max_size=4) | st.dictionaries(texts, texts, min_size=1, max_size=4),
)
def test_styles_are_those_of_rfc_6570(style: str, explode: bool, value: Any) -> None:
    expected = expand(f"{{{OPERATORS[style]}v{'*' if explode else ''}}}", v=value)
    if expected in (".", "..") or expected == "":
        return
    parameter = Parameter("v", "query" if style == "form" else "path", "v", style, explode)
    text = f"?{'&'.join(parameter.write_query(value))}" if style == "form" else parameter.write_path(value)
    # uritemplate sorts the members of mappings.
    if isinstance(value, dict):
        assert sorted(text) == sorted(expected)
    else:
        assert text == expected


def test_reserved_characters_stay_where_the_document_allows_them() -> None:
    parameter = Parameter("q", "query", "q", "form", True, allow_reserved=True)
    assert parameter.write_query("/a?b=c&d#e+[f]:%") == ["q=/a?b%3Dc%26d%23e%2B[f]:%25"]


@pytest.fixture(scope="module")
def api() -> Iterator[ApiServer]:
    with run_api() as server:
        yield server


def send(api: ApiServer, request: ApiRequest) -> Received:
    """Send a request to a real server, and return it as received."""

    async def exchange() -> None:
        client = HttpClient(AddressPolicy(parse_networks(["loopback"])), max_body=1000, tls=TLS)
        await client.fetch_response(request._replace(url=request.url.replace("http://h", api.url)))
        await client.close()

    anyio.run(exchange)
    return api.received.pop()


def parse_request(request: Received) -> Request:
    """Parse a request with werkzeug, which shares no code with the client."""
    parts = urlsplit(request.target)
    builder = EnvironBuilder(
        base_url="http://h",
        method=request.method,
        query_string=parts.query,
        headers=dict(request.headers),
        data=request.body,
    )
    environ = builder.get_environ()
    environ["PATH_INFO"] = unquote_to_bytes(parts.path).decode("latin-1")
    return Request(environ)


@functools.cache
def load_parser(document: str) -> OpenAPI:
    return OpenAPI.from_dict(json.loads(document))


LIST = {"type": "array", "items": {"type": "string"}}
OBJECT = {"type": "object", "properties": {"R": {"type": "string"}, "G": {"type": "string"}}}


@st.composite
def generate_parameters_with_values(draw: st.DrawFn) -> tuple[Json, Any]:
    """Generate a parameter in a style of openapi-core, and its value."""
    place, style, explode, value, schema = draw(
        st.sampled_from(
            [
                ("query", "form", True, texts, {"type": "string"}),
                ("query", "form", False, st.integers(-(2**53), 2**53), {"type": "integer"}),
                ("query", "form", True, st.booleans(), {"type": "boolean"}),
                ("query", "form", True, st.lists(texts, min_size=1, max_size=4), LIST),
                ("query", "form", False, st.lists(plain_texts, min_size=1, max_size=4), LIST),
                ("query", "form", False, st.fixed_dictionaries({"R": plain_texts, "G": plain_texts}), OBJECT),
                ("query", "pipeDelimited", False, st.lists(plain_texts, min_size=2, max_size=4), LIST),
                ("query", "deepObject", True, st.fixed_dictionaries({"R": texts, "G": texts}), OBJECT),
                ("path", "simple", False, plain_texts, {"type": "string"}),
                ("path", "simple", False, st.integers(0, 2**53), {"type": "integer"}),
                ("path", "simple", False, st.lists(plain_texts, min_size=1, max_size=4), LIST),
                ("path", "simple", True, st.fixed_dictionaries({"R": plain_texts, "G": plain_texts}), OBJECT),
                ("header", "simple", False, st.lists(plain_texts, min_size=1, max_size=4), LIST),
                ("header", "simple", True, st.fixed_dictionaries({"R": plain_texts, "G": plain_texts}), OBJECT),
                ("cookie", "form", False, st.integers(0, 2**53), {"type": "integer"}),
            ]
        )
    )
    parameter = {"name": "v", "in": place, "required": True, "style": style, "explode": explode, "schema": schema}
    return parameter, draw(value)


@EXAMPLES
@given(case=generate_parameters_with_values())
def test_an_independent_parser_reads_the_values_that_were_written(api: ApiServer, case: tuple[Json, Any]) -> None:
    style, value = case
    path = "/p/{v}" if style["in"] == "path" else "/p"
    parameter = Parameter("v", style["in"], "v", style["style"], style["explode"])
    builder = RequestBuilder("get", "http://h", path, [parameter], None, "*/*")
    request = send(api, builder.build_http_request({"v": value}))
    document = make_document({path: {"get": {"parameters": [style]}}}, servers=[{"url": api.url}])
    parameters = load_parser(json.dumps(document)).unmarshal_request(WerkzeugOpenAPIRequest(parse_request(request)))
    assert parameters.errors == []
    assert getattr(parameters.parameters, style["in"])["v"] == value


def write_body(media_type: str, schema: Json, body: Any) -> ApiRequest:
    document = ApiDocument(make_document({}))
    converter = SchemaConverter(document, TextScreen())
    writer = build_body_writer(document, DeclaredBody(media_type, schema, {}, True, ""), converter)
    return RequestBuilder("post", "http://h", "/p", [], writer.write, "*/*").build_http_request({"body": body})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@EXAMPLES
@given(body=st.dictionaries(texts, json_values, min_size=1, max_size=4))
def test_json_bodies_equal_their_arguments(api: ApiServer, body: Json) -> None:
    request = send(api, write_body("application/json", {}, body))
    assert orjson.loads(request.body) == body


@EXAMPLES
@given(body=st.dictionaries(texts, texts | st.lists(texts, min_size=1, max_size=3), min_size=1, max_size=4))
def test_a_server_reads_forms_as_they_were_written(api: ApiServer, body: Json) -> None:
    form = parse_request(send(api, write_body("application/x-www-form-urlencoded", {}, body))).form
    assert form.to_dict(flat=False) == {
        key: field if isinstance(field, list) else [field] for key, field in body.items()
    }


names = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="%\\"), min_size=1, max_size=12)


@EXAMPLES
@given(
    fields=st.dictionaries(names, texts, max_size=3),
    content=st.binary(max_size=100),
    filename=names,
)
def test_a_server_reads_multipart_bodies_as_they_were_written(
    api: ApiServer, fields: Json, content: bytes, filename: str
) -> None:
    fields.pop("f", None)
    schema = {"properties": {"f": {"type": "string", "format": "binary"}}}
    data = {"data": base64.b64encode(content).decode(), "filename": filename, "media_type": "image/x-test"}
    with parse_request(send(api, write_body("multipart/form-data", schema, {**fields, "f": data}))) as request:
        assert request.form.to_dict() == fields
        file = request.files["f"]
        assert (file.read(), file.filename, file.content_type) == (content, filename, "image/x-test")

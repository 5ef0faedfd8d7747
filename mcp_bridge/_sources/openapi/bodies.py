"""Builds the schema of the argument `body` of a tool, and writes its value as the body of a request.

JSON, forms and multipart bodies become objects or other JSON values, text stays text, and other bodies are base64.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mcp_bridge._contracts.errors import InvalidArguments, SourceError
from mcp_bridge._json_schema.walking import get_mapping
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._runtime.http_client.requests import Part, is_header_value
from mcp_bridge._sources.openapi.document import ApiDocument, Json, as_mapping
from mcp_bridge._sources.openapi.operations import DeclaredBody
from mcp_bridge._sources.openapi.parameters import Parameter, write_value
from mcp_bridge._sources.openapi.schemas import Schema, SchemaConverter

FORM, MULTIPART, BINARY = "application/x-www-form-urlencoded", "multipart/form-data", "application/octet-stream"
FILE_SCHEMA: Schema = {
    "type": "object",
    "description": "A file.",
    "properties": {
        "data": {"type": "string", "contentEncoding": "base64", "description": "The content, in base64."},
        "filename": {"type": "string"},
        "media_type": {"type": "string", "description": "Such as image/png."},
    },
    "required": ["data"],
    "additionalProperties": False,
}
_BASE64: Schema = {"type": "string", "contentEncoding": "base64", "description": "The content, in base64."}


class EncodedBody(NamedTuple):
    """The body of a request: `content` of a media type, or the `parts` of a multipart body."""

    media_type: str
    content: bytes | None = None
    parts: tuple[Part, ...] = ()


class BodyWriter(NamedTuple):
    """Writes the argument `body`. `schema` is the schema of the argument, without its definitions."""

    schema: Schema
    write: Callable[[Any], EncodedBody]


def build_body_writer(document: ApiDocument, body: DeclaredBody, converter: SchemaConverter) -> BodyWriter:
    """Build the writer of a body. Raises SourceError for a wrong reference."""
    # `*/*` and `application/*` accept any type, so the body is sent as JSON.
    media_type = "application/json" if body.media_type.endswith("/*") else body.media_type
    type_name = media_type.partition(";")[0].strip().lower()
    if "json" in type_name:
        schema = converter.convert_schema(body.schema)
        return BodyWriter(schema, lambda value: EncodedBody(media_type, dump_json(value)))
    if type_name == FORM:
        return _FormWriter(document, body, converter).build_writer()
    if type_name == MULTIPART:
        return _MultipartWriter(document, body, converter).build_writer()
    if type_name.startswith("text/") or "xml" in type_name or "yaml" in type_name:
        schema = {"type": "string", "description": f"Text of the type {type_name}."}
        return BodyWriter(schema, lambda value: EncodedBody(media_type, str(value).encode()))
    return BodyWriter(_BASE64, lambda value: EncodedBody(media_type, decode_base64(value, "$.body")))


def decode_base64(value: Any, place: str) -> bytes:
    """Decode base64. Raises InvalidArguments."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise InvalidArguments([f"{place}: expected base64"]) from None


class _FormFields:
    """The common part of both kinds of forms: the schema of the form, and the `encoding` of each field."""

    def __init__(self, document: ApiDocument, body: DeclaredBody, converter: SchemaConverter) -> None:
        self.document = document
        self.schema: Json = document.resolve_node(body.schema) if body.schema is not None else {}
        self.converter = converter
        self.encoding = body.encoding

    def convert_form(self) -> Schema:
        """Convert the schema of the form, always an object. Its fields cannot depend on a discriminator."""
        schema = {key: value for key, value in self.schema.items() if key not in ("nullable", "discriminator")}
        return {**self.converter.convert_schema(schema), "type": "object"}


class _FormWriter(_FormFields):
    """Writes forms (`application/x-www-form-urlencoded`).

    The `encoding` of a field chooses its style. Without one, lists are repeated fields, and objects are JSON.
    """

    def build_writer(self) -> BodyWriter:
        return BodyWriter(self.convert_form(), self._write_body)

    def _write_body(self, value: Any) -> EncodedBody:
        pairs: list[str] = []
        for name, item in dict(value).items():
            if item is not None:
                pairs += self._write_field(name, item)
        # Forms encode a space as "+", unlike queries (WHATWG URL, "application/x-www-form-urlencoded serializing").
        return EncodedBody(FORM, "&".join(pairs).replace("%20", "+").encode())

    def _write_field(self, name: str, item: Any) -> list[str]:
        encoding = get_mapping(self.encoding, name)
        style, explode = str(encoding.get("style") or ""), encoding.get("explode")
        if not isinstance(explode, bool):
            explode = style in ("", "form")
        allow_reserved = encoding.get("allowReserved") is True
        media_type = "application/json" if isinstance(item, Mapping) and not style else ""
        return Parameter(name, "query", name, style or "form", explode, allow_reserved, media_type).write_query(item)


class _MultipartWriter(_FormFields):
    """Writes multipart bodies. A property with binary content is a file: an object with base64 `data`."""

    def __init__(self, document: ApiDocument, body: DeclaredBody, converter: SchemaConverter) -> None:
        super().__init__(document, body, converter)
        self._file_names: set[str] = set()
        self._file_list_names: set[str] = set()

    def build_writer(self) -> BodyWriter:
        schema = self.convert_form()
        for name, property_schema in get_mapping(self.schema, "properties").items():
            resolved_schema = self._resolve_schema(property_schema)
            description = as_mapping(property_schema).get("description")
            if _is_file(resolved_schema):
                self._file_names.add(name)
                file_schema = dict(FILE_SCHEMA)
                if isinstance(description, str):
                    file_schema["description"] = description
                schema["properties"][name] = file_schema
            elif resolved_schema.get("type") == "array":
                items = self._resolve_schema(resolved_schema.get("items"))
                if _is_file(items):
                    self._file_list_names.add(name)
                    schema["properties"][name] = {"type": "array", "items": FILE_SCHEMA}
        return BodyWriter(schema, self._write_body)

    def _resolve_schema(self, schema: Any) -> Json:
        try:
            return self.document.resolve_node(schema)
        except SourceError:
            return {}

    def _write_body(self, value: Any) -> EncodedBody:
        parts: list[Part] = []
        for name, item in dict(value).items():
            if item is None:
                continue
            # `contentType` may be a list of types or a range, such as `image/png, image/*`.
            media_type = str(get_mapping(self.encoding, name).get("contentType") or "").partition(",")[0].strip()
            if "*" in media_type:
                media_type = ""
            if name in self._file_names:
                parts.append(_encode_file(name, item, media_type, f"$.body.{name}"))
            elif name in self._file_list_names:
                for number, file in enumerate(item):
                    parts.append(_encode_file(name, file, media_type, f"$.body.{name}[{number}]"))
            elif "json" in media_type:
                parts.append(Part(name, dump_json(item), media_type))
            else:
                for member in item if isinstance(item, list) else [item]:
                    default_type = "application/json" if isinstance(member, Mapping | list) else "text/plain"
                    parts.append(Part(name, write_value(member).encode(), media_type or default_type))
        return EncodedBody(MULTIPART, None, tuple(parts))


def _is_file(schema: Json) -> bool:
    """Return whether a property is binary: `format: binary` in OpenAPI 3.0, `contentMediaType` in 3.1."""
    if schema.get("type") not in ("string", None):
        return False
    if schema.get("format") == "binary":
        return True
    media_type = schema.get("contentMediaType")
    return isinstance(media_type, str) and "contentEncoding" not in schema and not media_type.startswith("text/")


def _encode_file(name: str, file: Mapping[str, Any], media_type: str, place: str) -> Part:
    content = decode_base64(file["data"], f"{place}.data")
    media_type = file.get("media_type") or media_type or BINARY
    if not is_header_value(media_type):
        raise InvalidArguments([f"{place}.media_type: expected a media type such as image/png"])
    return Part(name, content, media_type, file.get("filename") or name)

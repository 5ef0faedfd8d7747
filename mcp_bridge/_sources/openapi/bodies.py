"""Bodies of requests: the schema of the argument `body`, and the bytes that a value becomes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from mcp_bridge._contracts.errors import InvalidArguments, SourceError
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
    """A body as it is sent: content of a media type, or the parts of a multipart body."""

    media_type: str
    content: bytes | None = None
    parts: tuple[Part, ...] = ()


class BodyWriter(NamedTuple):
    """How the argument `body` becomes a body. `schema` is that of the argument, without its definitions."""

    schema: Schema
    write: Callable[[Any], EncodedBody]


def build_body_writer(document: ApiDocument, body: DeclaredBody, converter: SchemaConverter) -> BodyWriter:
    """Choose how a body is written. Raises SourceError for a reference that is wrong."""
    media_type = "application/json" if body.media_type.endswith("/*") else body.media_type
    kind = media_type.partition(";")[0].strip().lower()
    if "json" in kind:
        return BodyWriter(
            converter.convert_schema(body.schema), lambda value: EncodedBody(media_type, dump_json(value))
        )
    if kind == FORM:
        return _FormWriter(document, body, converter).build_writer()
    if kind == MULTIPART:
        return _MultipartWriter(document, body, converter).build_writer()
    if kind.startswith("text/") or "xml" in kind or "yaml" in kind:
        return BodyWriter(
            {"type": "string", "description": f"Text of the type {kind}."},
            lambda value: EncodedBody(media_type, str(value).encode()),
        )
    return BodyWriter(_BASE64, lambda value: EncodedBody(media_type, decode_base64(value, "$.body")))


def decode_base64(value: Any, place: str) -> bytes:
    """Decode base64. Raises InvalidArguments."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise InvalidArguments([f"{place}: expected base64"]) from None


class _FormFields:
    """The fields of a form: the schema of each property, and how it is written."""

    def __init__(self, document: ApiDocument, body: DeclaredBody, converter: SchemaConverter) -> None:
        self.document = document
        self.schema: Json = document.resolve_node(body.schema) if body.schema is not None else {}
        self.converter = converter
        self.encoding = {name: as_mapping(one) for name, one in body.encoding.items()}

    def convert_form(self) -> Schema:
        """Convert the schema; a form is always an object, and its fields are those of this schema."""
        schema = {key: value for key, value in self.schema.items() if key not in ("nullable", "discriminator")}
        converted = self.converter.convert_schema(schema)
        return {**converted, "type": "object"}


class _FormWriter(_FormFields):
    """Writes forms. Without an `encoding`, lists are repeated fields, and objects are JSON."""

    def build_writer(self) -> BodyWriter:
        return BodyWriter(self.convert_form(), self._write_body)

    def _write_body(self, value: Any) -> EncodedBody:
        pairs = [
            pair for name, item in dict(value).items() if item is not None for pair in self._write_field(name, item)
        ]
        return EncodedBody(FORM, "&".join(pairs).replace("%20", "+").encode())

    def _write_field(self, name: str, item: Any) -> list[str]:
        encoding = self.encoding.get(name, {})
        style = str(encoding.get("style") or "")
        explode = encoding.get("explode")
        media_type = "" if style or not isinstance(item, Mapping) else "application/json"
        field = Parameter(
            name,
            "query",
            name,
            style or "form",
            explode if isinstance(explode, bool) else style in ("", "form"),
            encoding.get("allowReserved") is True,
            media_type,
        )
        return field.write_query(item)


class _MultipartWriter(_FormFields):
    """Writes multipart bodies. Properties with binary content are files, given as an object with base64 `data`."""

    def build_writer(self) -> BodyWriter:
        schema = self.convert_form()
        properties = as_mapping(self.schema.get("properties"))
        self.files = {name for name, one in properties.items() if self._is_file(one)}
        self.lists = {name for name, one in properties.items() if self._is_list_of_files(one)}
        for name in self.files | self.lists:
            description = as_mapping(properties[name]).get("description")
            file = FILE_SCHEMA if not isinstance(description, str) else {**FILE_SCHEMA, "description": description}
            schema["properties"][name] = file if name in self.files else {"type": "array", "items": FILE_SCHEMA}
        return BodyWriter(schema, self._write_body)

    def _is_file(self, schema: Any) -> bool:
        resolved = self._resolve_schema(schema)
        media_type = resolved.get("contentMediaType")
        is_binary = resolved.get("format") == "binary" or (
            isinstance(media_type, str) and "contentEncoding" not in resolved and not media_type.startswith("text/")
        )
        return is_binary and resolved.get("type") in ("string", None)

    def _is_list_of_files(self, schema: Any) -> bool:
        resolved = self._resolve_schema(schema)
        return resolved.get("type") == "array" and self._is_file(resolved.get("items") or {})

    def _resolve_schema(self, schema: Any) -> Json:
        try:
            return self.document.resolve_node(schema)
        except SourceError:
            return {}

    def _write_body(self, value: Any) -> EncodedBody:
        parts = [
            part for name, item in dict(value).items() if item is not None for part in self._write_field(name, item)
        ]
        return EncodedBody(MULTIPART, None, tuple(parts))

    def _write_field(self, name: str, item: Any) -> Iterator[Part]:
        declared = str(self.encoding.get(name, {}).get("contentType") or "").partition(",")[0].strip()
        media_type = "" if "*" in declared else declared
        if name in self.files or name in self.lists:
            for number, file in enumerate(item if name in self.lists else [item]):
                place = f"$.body.{name}[{number}]" if name in self.lists else f"$.body.{name}"
                content = decode_base64(file["data"], f"{place}.data")
                kind = file.get("media_type") or media_type or BINARY
                if not is_header_value(kind):
                    raise InvalidArguments([f"{place}.media_type: expected a media type such as image/png"])
                yield Part(name, content, kind, file.get("filename") or name)
            return
        is_json = "json" in media_type
        for one in item if isinstance(item, list) and not is_json else [item]:
            kind = media_type or ("application/json" if isinstance(one, Mapping | list) else "text/plain")
            content = dump_json(one) if is_json else write_value(one).encode()
            yield Part(name, content, kind)

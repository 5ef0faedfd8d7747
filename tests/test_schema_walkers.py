"""Every walk of a schema by a third party ends soon, whatever its content."""

from __future__ import annotations

import json
import logging
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

import mcp_bridge
from mcp_bridge._cli.schema_values import format_parameters
from mcp_bridge._contracts.errors import BridgeError, SourceError
from mcp_bridge._contracts.source import Offer
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._engine.argument_removal import ArgumentRemoval
from mcp_bridge._engine.overrides import ToolOverride
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._engine.tool_use.chain_schema import infer_input_schema
from mcp_bridge._engine.tool_use.chain_wiring import find_wiring_problems
from mcp_bridge._engine.tool_use.steps import ChainStep
from mcp_bridge._integrations.amplifier.behavior.tools import generate_arguments
from mcp_bridge._integrations.export.strict import to_strict
from mcp_bridge._integrations.export.tools import export_tool
from mcp_bridge._integrations.xaibo.registry_provider import RegistryToolProvider
from mcp_bridge._json_schema.forms import create_form
from mcp_bridge._json_schema.headers import check_headers, list_headers
from mcp_bridge._json_schema.inlining import inline_definitions, inline_references
from mcp_bridge._json_schema.schema_checks import (
    check_schema,
    make_checkable,
    repair_schemas,
    repair_third_party_schema,
)
from mcp_bridge._json_schema.size_limits import count_expanded
from mcp_bridge._json_schema.text_arguments import list_choices
from mcp_bridge._json_schema.type_sets import list_types
from mcp_bridge._json_schema.validator import Validator
from mcp_bridge._protocol.dialects.argument_repair import ArgumentRepair
from mcp_bridge._protocol.dialects.dialect import SchemaDialect
from mcp_bridge._protocol.dialects.flattening import flatten_root
from mcp_bridge._protocol.dialects.linting import lint
from mcp_bridge._protocol.dialects.rewriting import render_tools
from mcp_bridge._protocol.dialects.table import PROFILES
from mcp_bridge._protocol.wire.output_schemas import simplify_output_schema
from mcp_bridge._protocol.wire.schemas import can_be_null, can_be_object, is_always_object, wrap_schema
from mcp_bridge._runtime.http_client.requests import ApiRequest, HttpResponse
from mcp_bridge._sources.openapi.bundling import bundle_document
from mcp_bridge._sources.openapi.credentials import ApiCredentials
from mcp_bridge._sources.openapi.document import ApiDocument
from mcp_bridge._sources.openapi.operations import find_operations, name_operations
from mcp_bridge._sources.openapi.tools import ToolBuilder
from mcp_bridge._upstream.trust.guard import DefinitionGuard
from tests.kits.schema.hostile_schemas import list_hostile_schemas

LIMIT = 20.0
"""Seconds of CPU time. Every walk takes less than two seconds; an exponential one takes years."""
PACKAGE = Path(mcp_bridge.__file__).parent
FOLLOWING = re.compile(
    r'\b(resolve_pointer|resolve_schema|resolve_node|follow_reference|list_types|count_expanded)\b|"\$ref"'
    r"|\b(walk_schemas|walk_applied_schemas|map_subschemas|list_subschemas)\b"
)
"""What a module uses that walks schemas: the walks of `_json_schema`, which are the only ones, and references."""
OWN = frozenset(
    {
        "_contracts/parameters.py", "_engine/authoring/resources.py",
        "_protocol/dialects/profile.py", "_protocol/dialects/table.py",
        "_json_schema/generation.py",
        "_json_schema/walking.py", "_json_schema/references.py", "_server/params.py", "_settings/schema.py",
    }
)  # fmt: skip
"""Modules that define walks, or that walk only schemas of this package and of Python functions."""
ARGUMENTS: dict[str, Any] = {"a": {"x": [1, "2"], "y": "{}"}, "b": '{"a": 1}', "k": "v5"}
ALL_REWRITTEN = SchemaDialect(*[True] * 5)
Schema = dict[str, Any]


def make_entry(schema: Schema) -> ToolEntry:
    return ToolEntry("tool", "A tool.", lambda data: data, schema, schema)


def make_document(schema: Schema) -> dict[str, Any]:
    """Return a document with each definition of a schema as the body and the result of an operation."""
    text = json.dumps(schema).replace("#/$defs/", "#/components/schemas/")
    definitions = json.loads(text).pop("$defs", {})
    content = {name: {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}} for name in definitions}
    operations = {
        f"/{name}": {"post": {"requestBody": {"content": body}, "responses": {"200": {"content": body}}}}
        for name, body in content.items()
    }
    return {"openapi": "3.1.0", "paths": operations, "components": {"schemas": definitions}}


def read_openapi(schema: Schema) -> None:
    document = ApiDocument(make_document(schema))
    credentials = ApiCredentials(document=document, secrets={}, headers={}, fetch_token=reject_token)
    builder = ToolBuilder(document, credentials, reject_request, server="https://api.example")
    for name, operation in name_operations(find_operations(document, [])).items():
        with suppress(SourceError):
            repair_schemas(builder.build_entry(name, operation))


async def reject_token(url: str, form: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    raise AssertionError


async def reject_request(request: ApiRequest) -> HttpResponse:
    raise AssertionError


def bundle(schema: Schema) -> None:
    async def load(url: str) -> bytes:
        return json.dumps(make_document(schema)).encode()

    anyio.run(bundle_document, "https://api.example/openapi.json", load)


def wire_chain(schema: Schema) -> None:
    steps = [ChainStep("first", output_key="a"), ChainStep("second", input_mapping={"a": "a", "b": "a.x"})]
    infer_input_schema(lambda name: make_entry(schema), steps)
    list(find_wiring_problems(lambda name: make_entry(schema), steps, schema))


def convert_for_xaibo(schema: Schema) -> None:
    registry = ToolRegistry()
    registry.publish("source", [make_entry(schema)])
    anyio.run(RegistryToolProvider(registry).list_tools)


WALKERS: dict[str, Callable[[Schema], object]] = {
    "_integrations/amplifier/behavior/tools.py": generate_arguments,
    "_protocol/dialects/argument_repair.py": lambda schema: ArgumentRepair(schema).repair(ARGUMENTS),
    "_protocol/dialects/flattening.py": flatten_root,
    "_protocol/dialects/linting.py": lambda schema: [
        lint(render_tools([make_entry(schema)], SchemaDialect()), profile) for profile in PROFILES.values()
    ],
    "_protocol/dialects/rewriting.py": lambda schema: render_tools([make_entry(schema)], ALL_REWRITTEN),
    "_integrations/export/strict.py": to_strict,
    "_integrations/export/tools.py": lambda schema: export_tool(make_entry(schema), "tool", strict=True),
    "_engine/argument_removal.py": lambda schema: ArgumentRemoval(schema, {"a"}, {"a": 1}).change_schema(),
    "_json_schema/forms.py": create_form,
    "_json_schema/headers.py": lambda schema: [check_headers(schema), list_headers(schema)],
    "_json_schema/inlining.py": lambda schema: [inline_references(schema), inline_definitions(schema)],
    "_json_schema/library_errors.py": lambda schema: Validator(schema).describe_problems(ARGUMENTS),
    "_json_schema/schema_checks.py": lambda schema: [check_schema(schema), make_checkable(schema)],
    "_json_schema/schema_repair.py": lambda schema: repair_third_party_schema(schema),
    "_json_schema/size_limits.py": count_expanded,
    "_json_schema/text_arguments.py": lambda schema: list_choices({"properties": {}, **schema}),
    "_json_schema/type_sets.py": lambda schema: list_types(schema, schema),
    "_json_schema/validator.py": lambda schema: Validator(schema).check(ARGUMENTS),
    "_sources/openapi/bodies.py": read_openapi,
    "_sources/openapi/bundling.py": bundle,
    "_sources/openapi/document.py": read_openapi,
    "_sources/openapi/leniency.py": read_openapi,
    "_sources/openapi/operations.py": read_openapi,
    "_sources/openapi/schemas.py": read_openapi,
    "_sources/openapi/servers.py": read_openapi,
    "_cli/schema_values.py": format_parameters,
    "_engine/overrides.py": lambda schema: ToolOverride(descriptions={"a": "A."}).apply(make_entry(schema)),
    "_engine/tool_use/chain_schema.py": wire_chain,
    "_engine/tool_use/chain_wiring.py": wire_chain,
    "_upstream/trust/guard.py": lambda schema: DefinitionGuard("server").review(Offer(tools=[make_entry(schema)])),
    "_protocol/wire/output_schemas.py": simplify_output_schema,
    "_protocol/wire/schemas.py": lambda schema: [
        can_be_object(schema), can_be_null(schema), is_always_object(schema), wrap_schema(schema, "input"),
    ],
    "_integrations/xaibo/tool_models.py": convert_for_xaibo,
}  # fmt: skip
"""Each module that walks schemas, with a function that makes it walk one."""


@contextmanager
def limit_cpu_time(seconds: float) -> Iterator[None]:
    def interrupt(number: int, frame: object) -> None:
        raise AssertionError(f"it takes more than {seconds} seconds")

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_every_module_that_walks_schemas_is_in_the_table() -> None:
    files = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in PACKAGE.rglob("*.py")}
    walkers = {file for file, text in files.items() if FOLLOWING.search(text)}
    assert walkers - OWN == WALKERS.keys()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers of CPU time")
@pytest.mark.parametrize("module", {walk: module for module, walk in WALKERS.items()}.values())
def test_a_walk_of_hostile_schemas_ends_soon(module: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    for schema in list_hostile_schemas().values():
        # A walk may find that a schema cannot be used. It must not run out of the stack.
        with limit_cpu_time(LIMIT), suppress(BridgeError, ValueError):
            WALKERS[module](schema)

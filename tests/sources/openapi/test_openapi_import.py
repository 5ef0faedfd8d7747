"""`mcp-bridge import openapi`: one file for a document with its references, and the source for the settings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kits.forked_commands import get_forked_command
from tests.kits.openapi.api_server import ApiServer, Reply, get_text, list_tools, make_document, serve_document

ROOT = """
openapi: 3.0.3
info: {title: "Pet Store: all", version: 1}
x-samples: [{$ref: 'samples/none.ts'}]
servers: [{url: /v1}, {url: 'https://x.example'}]
paths:
  /pets/{id}: {$ref: 'paths/pet.yaml'}
components:
  securitySchemes:
    apiKey: {type: apiKey, in: header, name: X-Key}
    login: {type: http, scheme: basic}
    oauth: {type: oauth2, flows: {clientCredentials: {tokenUrl: 'https://x.example/t', scopes: {}}}}
    cert: {type: mutualTLS}
  schemas:
    Name: {type: string, maxLength: 5, x-limit: 123456789012345678901234567890}
"""
PET = """
get:
  operationId: getPet
  parameters: [{name: id, in: path, required: true, schema: {$ref: '../schemas.json#/Id'}}]
put:
  operationId: putPet
  requestBody: {content: {application/json: {schema: {$ref: '../schemas.json#/Pet'}}}}
"""
SCHEMAS = {
    "Id": {"type": "integer", "minimum": 1},
    "Pet": {
        "type": "object",
        "properties": {
            "id": {"$ref": "#/Id"},
            "name": {"$ref": "root.yaml#/components/schemas/Name"},
            "pet": {"$ref": "#/Pet"},
        },
    },
}  # fmt: skip
FILES = {"root.yaml": ROOT, "paths/pet.yaml": PET, "schemas.json": json.dumps(SCHEMAS)}


def run_import(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*get_forked_command(), "mcp_bridge", "import", "openapi", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)


def write_files(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


async def check_bundle(folder: Path, api: ApiServer) -> None:
    """Check that the imported document works without the other files."""
    content = (folder / "pet-store-all.json").read_text()
    async with serve_document(folder, content, server=api.url) as client:
        tools = await list_tools(client)
        api.reply = Reply()
        assert not (await client.call_tool("getPet", {"id": 1})).is_error
        assert (await client.call_tool("getPet", {"id": 0})).is_error
        wrong = await client.call_tool("putPet", {"id": 1, "body": {"pet": {"name": "too long"}}})
    assert list(tools) == ["getPet", "putPet"]
    assert "$.body.pet.name" in get_text(wrong)


async def test_documents_in_several_files_become_one(api: ApiServer, tmp_path: Path) -> None:
    write_files(tmp_path / "spec with spaces")
    result = run_import(tmp_path, "spec with spaces/root.yaml")
    assert result.returncode == 0, result.stderr
    assert result.stderr.splitlines() == [
        "Wrote pet-store-all.json: 2 operations, OpenAPI 3.0.3.",
        "A source for the settings:",
        "",
        "sources:",
        "  - type: openapi",
        "    document: pet-store-all.json",
        "    auth:",
        "      apiKey: env:API_KEY",
        "      login: {username: env:LOGIN_USER, password: env:LOGIN_PASSWORD}",
        "      oauth: {client_id: env:OAUTH_ID, client_secret: env:OAUTH_SECRET}",
        "",
        "Set these variables, and remove the schemes that you have no credentials for.",
    ]
    await check_bundle(tmp_path, api)


async def test_documents_of_a_server_are_bundled_with_absolute_servers(api: ApiServer, tmp_path: Path) -> None:
    api.reply = lambda request: Reply(FILES[request.path.removeprefix("/spec/")].encode())
    result = run_import(tmp_path, f"{api.url}/spec/root.yaml", "--allow", "loopback", "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["operations"] == ["getPet", "putPet"]
    assert report["source"]["document"] == "pet-store-all.json"
    document = json.loads((tmp_path / "pet-store-all.json").read_text())
    assert document["servers"] == [{"url": f"{api.url}/v1"}, {"url": "https://x.example"}]
    await check_bundle(tmp_path, api)


def test_nothing_is_fetched_from_this_machine_unless_it_is_allowed(api: ApiServer, tmp_path: Path) -> None:
    result = run_import(tmp_path, f"{api.url}/spec.json")
    assert result.returncode == 2
    assert "(127.0.0.1) are not public, and the settings do not allow them" in result.stderr
    assert api.received == []
    result = run_import(tmp_path, "https://x.example", "--allow", "localhost")
    assert "--allow: expected addresses, networks such as 10.0.0.0/8" in result.stderr


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("http://127.0.0.1:9/other.json", "it refers to another origin, which is not followed: http://127.0.0.1:9/"),
        ("file:///etc/passwd", "it refers to another origin, which is not followed: file:///etc/passwd"),
    ],
)
def test_references_to_other_origins_are_not_followed(
    reference: str, problem: str, api: ApiServer, tmp_path: Path
) -> None:
    api.reply = Reply(json.dumps(make_document({"/x": {"$ref": reference}})).encode())
    result = run_import(tmp_path, f"{api.url}/spec.json", "--allow", "loopback")
    assert result.returncode == 2
    assert problem in result.stderr
    assert len(api.received) == 1


def test_files_outside_of_the_folder_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "spec").mkdir()
    for reference in ("../secret.json", "a/../../secret.json", (tmp_path / "secret.json").as_uri()):
        document = make_document({"/x": {"$ref": reference}})
        (tmp_path / "spec" / "api.json").write_text(json.dumps(document))
        result = run_import(tmp_path, "spec/api.json")
        assert "it refers to a file outside of its folder, which is not read" in result.stderr


def test_a_second_import_lists_changes(tmp_path: Path) -> None:
    def write(paths: Any, **rest: Any) -> None:
        (tmp_path / "api.json").write_text(json.dumps(make_document(paths, **rest)))

    write({"/a": {"get": {}}, "/b": {"get": {}}, "/c": {"get": {}}})
    assert run_import(tmp_path, "api.json").returncode == 0
    write({"/a": {"get": {}}, "/b": {"get": {"summary": "new"}}, "/d": {"get": {}}}, components={"schemas": {}})
    second_run = run_import(tmp_path, "api.json")
    assert second_run.returncode == 2
    assert "this file exists. Replace it with --force" in second_run.stderr
    forced_run = run_import(tmp_path, "api.json", "--force")
    assert forced_run.stderr.splitlines()[1:8] == [
        "New:", "  get_d", "Changed:", "  get_b", "  components, which operations refer to", "Removed:", "  get_c",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (Reply(b"no", 404), "the server responded with HTTP status 404"),
        (Reply(b"{}"), "it is not an OpenAPI document"),
    ],
)
def test_a_response_that_is_no_document_is_an_error(reply: Reply, problem: str, api: ApiServer, tmp_path: Path) -> None:
    api.reply = reply
    result = run_import(tmp_path, f"{api.url}/api.json", "--allow", "loopback")
    assert result.returncode == 2
    assert problem in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    result = run_import(tmp_path, "none.yaml")
    assert result.returncode == 2
    assert result.stderr.startswith("mcp-bridge: none.yaml: ")
    assert "cannot be read: No such file or directory" in result.stderr
    (tmp_path / "api.json").write_text(json.dumps(make_document({"/x": {"$ref": "#/none"}})))
    result = run_import(tmp_path, "api.json", "-o", "no/folder.json")
    assert "no/folder.json: it cannot be written: No such file or directory" in result.stderr


def test_a_document_that_is_nested_too_deeply_is_an_error(tmp_path: Path) -> None:
    deep = '{"a":' * 1010 + "1" + "}" * 1010
    (tmp_path / "api.json").write_text(f'{{"openapi": "3.1.0", "paths": {{}}, "deep": {deep}}}')
    assert "api.json: it is nested too deeply" in run_import(tmp_path, "api.json").stderr


def test_problems_are_printed(tmp_path: Path) -> None:
    (tmp_path / "api.json").write_text(json.dumps(make_document({"/x": {"$ref": "#/none"}})))
    result = run_import(tmp_path, "api.json")
    assert result.stderr.splitlines()[:2] == [
        "Wrote test.json: 0 operations, OpenAPI 3.1.0.", "PROBLEM: /x: '#/none' does not resolve",
    ]  # fmt: skip
    assert "    server: https://api.example.com" in result.stderr

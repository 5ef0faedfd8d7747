"""`export server-json` writes a valid entry by the schema of the registry."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mcp_bridge._version import __version__
from tests.kits.packaging.packaging_kit import run_in_process
from tests.kits.paths import KITS

SCHEMA = json.loads((KITS / "packaging" / "registry" / "server.schema.json").read_text())
"""The registry's, as it is published."""
MINE = ("--namespace", "io.github.example-user")


def export_entry(folder: Path, *args: str | Path) -> dict[str, Any]:
    result = run_in_process(folder, "export", "server-json", *MINE, *args)
    assert result.code == 0, result.err
    return result.json


BUNDLE = ("--bundle", "b.mcpb", "--bundle-url", "https://github.com/example-user/mcp/releases/download/v1/b.mcpb")


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--package", "my-shelf", "--package-version", "2.0"),
        BUNDLE,
        ("--env", "API_TOKEN", "--description", "Short."),
    ],
    ids=["the bridge", "a package of one's own", "a bundle", "more"],
)
def test_the_registrys_schema_accepts_it(project_folder: Path, args: tuple[str, ...]) -> None:
    (project_folder / "b.mcpb").write_bytes(b"any")
    data = export_entry(project_folder, *args)
    assert data["$schema"] == SCHEMA["$id"]
    jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(data)


def test_a_registry_entry_starts_the_distribution_of_the_bridge(project_folder: Path) -> None:
    (package,) = export_entry(project_folder)["packages"]
    assert (package["registryType"], package["identifier"]) == ("pypi", "mcp-tool-bridge")
    assert (package["version"], package["runtimeHint"]) == (__version__, "uvx")
    assert [argument.get("value", argument.get("valueHint")) for argument in package["packageArguments"]] == [
        "serve",
        "settings",
    ]


def test_a_registry_entry_declares_variables_as_secret_and_required(project_folder: Path) -> None:
    (package,) = export_entry(project_folder)["packages"]
    result = {
        item["name"]: (item["isSecret"], item["isRequired"], item.get("default"))
        for item in package["environmentVariables"]
    }
    assert result == {"PREFIX": (False, False, "our"), "SHELF_KEY": (True, True, None)}


def test_a_registry_entry_has_the_hash_of_its_bundle(project_folder: Path) -> None:
    (project_folder / "b.mcpb").write_bytes(b"any")
    (package,) = export_entry(project_folder, *BUNDLE)["packages"]
    assert package["fileSha256"] == hashlib.sha256(b"any").hexdigest()
    assert (package["registryType"], package["identifier"]) == ("mcpb", BUNDLE[-1])
    # The registry refuses a version here, though its schema allows one.
    assert "version" not in package


def test_the_required_line_of_the_readme_is_printed(project_folder: Path) -> None:
    result = run_in_process(project_folder, "export", "server-json", *MINE)
    assert "  mcp-name: io.github.example-user/my-shelf" in result.err.splitlines()


def test_a_long_text_of_the_settings_is_shortened(project_folder: Path) -> None:
    settings = project_folder / "mcp-bridge.yaml"
    settings.write_text(settings.read_text().replace("What is on the shelf.", "What is on the shelf. " * 9))
    text = export_entry(project_folder)["description"]
    assert len(text) == 100
    assert text.endswith("…")


def test_a_blank_description_counts_as_missing(project_folder: Path) -> None:
    assert export_entry(project_folder, "--description", "  ")["description"] == "What is on the shelf."


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--namespace", "no-slash"], "--namespace: 'no-slash' is not a valid namespace"),
        ([*MINE, "--package", "mine"], "--package: the version of 'mine' is missing"),
        ([*MINE, "--package-version", ">=1"], "--package-version: '>=1' is not an exact version"),
        ([*MINE, "--package-version", "latest"], "--package-version: 'latest' is not an exact version"),
        ([*MINE, "--bundle", "b.mcpb"], "--bundle, --bundle-url: a bundle needs a file and a URL"),
        (
            [*MINE, "--bundle", "b.mcpb", "--bundle-url", "https://github.com/x/mcp"],
            "--bundle: cannot read: No such file",
        ),
        (
            [*MINE, "--bundle", "b.mcpb", "--bundle-url", "http://github.com/x/mcp"],
            "--bundle-url: 'http://github.com/x/mcp' is not a valid bundle URL",
        ),
        ([*MINE, "--bundle", "b.mcpb", "--bundle-url", "https://example.com/mcp"], "'https://example.com/mcp' is no"),
        (
            [*MINE, "--bundle", "b.mcpb", "--bundle-url", "https://[/mcp"],
            "--bundle-url: 'https://[/mcp' is not a valid",
        ),
        (["--namespace", f"{'a' * 200}.b"], "--namespace: the name has 211 characters"),
        ([*MINE, "--description", "x" * 101], "--description: the description has 101 characters"),
        ([*MINE, "--http"], "'server-json' has no option --http. These formats have it: dockerfile"),
    ],
)
def test_entries_that_the_registry_would_reject_are_reported(
    project_folder: Path, args: list[str], message: str
) -> None:
    result = run_in_process(project_folder, "export", "server-json", *args)
    assert result.code == 2
    assert message in result.err
    assert result.out == ""

"""The generated pages match the code, and are complete."""

from __future__ import annotations

import json
import subprocess
import sys

import jsonschema
from ruamel.yaml import YAML

import mcp_bridge
from mcp_bridge import content, export, middleware, questions, serving, sources, tasks, tool_use
from mcp_bridge._protocol.wire.outcomes import TABLE
from mcp_bridge._settings import model, sections
from mcp_bridge.middleware import Stage
from tests.kits.paths import ROOT

PUBLIC_MODULES = (content, export, middleware, questions, serving, sources, tasks, tool_use)
CONFIG = sorted(path for path in (ROOT / "config").iterdir() if path.suffix in {".yaml", ".toml"})
PARTS = (
    model.Settings,
    model.SourceSettings,
    sections.LimitSettings,
    sections.HttpSettings,
    sections.StateSettings,
)


def test_the_pages_are_up_to_date() -> None:
    process = subprocess.run([sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


def test_every_error_code_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert all(f"`{row.code}`" in page for row in TABLE)


def test_every_public_name_is_in_the_api_page() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    public = [f"mcp_bridge.{name}" for name in mcp_bridge.__all__ if name != "__version__"]
    for package in PUBLIC_MODULES:
        names = set(package.__all__) - set(mcp_bridge.__all__) - {"FORMATS"}
        public += [f"{package.__name__}.{name}" for name in names]
    assert [name for name in public if f"::: {name}\n" not in page] == []


def test_every_stage_of_middleware_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "middleware.md").read_text(encoding="utf-8")
    assert [stage.name for stage in Stage if f"| `{stage.name}` |" not in page] == []


def test_every_setting_has_a_meaning() -> None:
    page = (ROOT / "docs" / "settings-reference.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows
    assert [row for row in rows if row.endswith("|  |")] == []


def test_every_setting_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "settings-reference.md").read_text(encoding="utf-8")
    names = {name for section in PARTS for name in section.model_fields} - {"options", "origin"}
    assert [name for name in sorted(names) if f"{name}`" not in page] == []


def test_every_setting_is_in_an_example() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in CONFIG)
    names = {name for section in PARTS[1:] for name in section.model_fields}
    assert [name for name in sorted(names - {"options", "origin"}) if f"{name}:" not in text] == []


def test_editors_find_nothing_wrong_in_the_examples() -> None:
    schema = json.loads((ROOT / "config" / "settings.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    for path in CONFIG:
        if path.suffix == ".yaml":
            given = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
            assert [error.message for error in validator.iter_errors(given)] == [], path.name


def test_editors_find_an_unknown_key_of_a_source() -> None:
    schema = json.loads((ROOT / "config" / "settings.schema.json").read_text(encoding="utf-8"))
    wrong = {"sources": [{"type": "python", "path": "tools.py", "pth": "x"}]}
    assert not jsonschema.Draft202012Validator(schema).is_valid(wrong)

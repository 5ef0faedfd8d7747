"""Operators write the dialect that the linter advises; the page shows the change of the file before it is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge._app.factory import build_from_file, build_from_settings
from mcp_bridge._settings import load
from tests.kits.web.web_kit import serve_page

TOOLS = '''
from pydantic import BaseModel

from mcp_bridge import tool


class Category(BaseModel):
    name: str
    parts: "list[Category]" = []


@tool
def sort(category: Category) -> str:
    """Sort a category, whose schema refers to itself."""
    return category.name
'''
SETTINGS = """\
# The shop in the harbour.
sources:
  - {type: python, path: tools.py}
"""
CLIENT = "gemini-cli"
PATH = f"dialects/{CLIENT}"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a settings file with findings. Backups go to a folder of the test."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "tools.py").write_text(TOOLS)
    path = tmp_path / "bridge.yaml"
    path.write_text(SETTINGS)
    return path


def read_clients(file: Path) -> tuple[str, ...]:
    dialect = load(file, {}).dialect
    return dialect.clients if dialect is not None else ()


async def test_the_advised_dialect_is_shown_before_it_is_written(file: Path) -> None:
    settings = load(file, {})
    async with serve_page(build_from_settings(settings), settings=settings) as server, server.read() as page:
        state = await page.read_state()
        change = (await page.post(PATH, apply=False)).json()
        assert read_clients(file) == ()
        other = await page.post(PATH, apply=True, digest="of another change")
        written = await page.post(PATH, apply=True, digest=change["digest"])
    assert CLIENT in [finding["dialect"] for finding in state["lint"]]
    assert state["can"]["dialect"] is True
    assert change["file"] == str(file)
    assert [line for line in change["diff"] if line.startswith("-")] == []
    assert f'+  clients:\n+    - "{CLIENT}"' in "\n".join(change["diff"])
    assert (other.status_code, written.status_code) == (409, 200)
    assert read_clients(file) == (CLIENT,)
    assert (await anyio.Path(file).read_text()).startswith(SETTINGS)
    assert await anyio.Path(written.json()["backup"]).read_text() == SETTINGS


@pytest.mark.parametrize("old", ["claude-code", "[claude-code]", "{clients: [claude-code], omit_empty: true}"])
async def test_the_advised_dialect_is_added_to_those_of_the_settings(file: Path, old: str) -> None:
    await anyio.Path(file).write_text(f"{SETTINGS}dialect: {old}\n")
    settings = load(file, {})
    async with serve_page(build_from_settings(settings), settings=settings) as server, server.read() as page:
        change = (await page.post(PATH)).json()
        await page.post(PATH, apply=True, digest=change["digest"])
    assert read_clients(file) == ("claude-code", CLIENT)
    dialect = load(file, {}).dialect
    assert dialect is not None
    assert dialect.omit_empty == ("omit_empty" in old)


async def test_dialects_that_are_not_advised_and_callers_without_rights_are_rejected(file: Path) -> None:
    settings = load(file, {})
    options: dict[str, Any] = {"settings": settings, "principals": {"ann": "token-of-ann"}}
    async with (
        serve_page(build_from_settings(settings), **options) as server,
        server.read() as owner,
        server.read("token-of-ann") as ann,
    ):
        assert (await owner.post("dialects/cursor")).status_code == 404
        assert (await ann.post(PATH)).status_code == 403
    assert read_clients(file) == ()


async def test_without_a_settings_file_no_dialect_is_set(file: Path) -> None:
    async with serve_page(build_from_file(file.parent / "tools.py")) as server, server.read() as page:
        assert (await page.read_state())["can"]["dialect"] is False
        assert (await page.post(PATH)).status_code == 403

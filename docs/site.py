"""Hooks of mkdocs: publish the files beside `docs/` that its pages refer to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

FILE = re.compile(r"^(```\w+) file=(\S+)$", re.MULTILINE)
ROOT = Path(__file__).parent.parent
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "reporting.md"}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root, the examples in `config/`, and the icon of the web page as the logo."""
    files.append(File.generated(config, "images/icon.svg", abs_src_path=str(ROOT / "web" / "icon.svg")))
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    for path in sorted((ROOT / "config").iterdir()):
        if path.suffix in {".yaml", ".toml", ".json"}:
            files.append(File.generated(config, f"config/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point links to files outside of `docs/` at their copies on the site; a snippet's file name becomes its title."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]
    markdown = FILE.sub(r'\1 title="\2"', markdown)
    markdown = markdown.replace("](../config)", "](config/settings.schema.json)").replace("](../config/", "](config/")
    markdown = markdown.replace("](docs/", "](")
    for name, copy in PAGES.items():
        markdown = markdown.replace(f"]({name})", f"]({copy})").replace(f"](../{name})", f"]({copy})")
    return markdown

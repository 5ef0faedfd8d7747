"""SkillsSource: publishes the files of skills as resources (SEP-2640).

A skill is a folder with a `SKILL.md`, which begins with frontmatter: its name and description in YAML.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
from anyio import to_thread
from pydantic import Field

from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._contracts.resource import ResourceEntry
from mcp_bridge._contracts.source import Offer, Publish, Source, SourceContext
from mcp_bridge._protocol.wire.skills import DIGEST, FRONTMATTER, SKILL_FILE
from mcp_bridge._settings.documents.editor import parse_source
from mcp_bridge._settings.sections import SettingsModel

MAX_FILES = 512
"""The maximum number of files of a skill (SEP-2640, "Limits")."""
MAX_SIZE = 16 * 1024 * 1024
"""The maximum number of bytes of all files of a skill together (SEP-2640, "Limits")."""
_NAME = re.compile(r"(?!.*--)[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")
_FRONTMATTER = re.compile(r"\ufeff?---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)", re.DOTALL)


class SkillsOptions(SettingsModel):
    """Skills: folders with a `SKILL.md`, which explain to models how to use the tools."""

    path: str = Field(
        min_length=1,
        description="One skill, or a folder of skills. Relative paths start at the folder of the settings file.",
    )


class SkillsSource(Source):
    """Publishes each folder in `path` with a SKILL.md as a skill, or `path` itself if it has one.

    The files are read once, at the start, so the published digests always match the contents.
    """

    Options = SkillsOptions

    def __init__(self, name: str, options: SkillsOptions, context: SourceContext) -> None:
        super().__init__(name, options, context)
        self._folder = context.directory / options.path

    @classmethod
    def choose_name(cls, options: SkillsOptions) -> str:
        """Return the name of the folder."""
        return Path(options.path).name or "skills"

    async def run(self, publish: Publish) -> None:
        """Publish the skills. Raises SourceError if there is none."""
        publish(await to_thread.run_sync(self._read_skills, abandon_on_cancel=True))

    def list_files(self) -> Sequence[Path]:
        """Return the folder if it exists."""
        return [self._folder] if self._folder.exists() else []

    def _read_skills(self) -> Offer:
        folders = [self._folder, *sorted(self._folder.iterdir())] if self._folder.is_dir() else []
        resources: list[ResourceEntry] = []
        problems: list[str] = []
        for folder in folders:
            if (folder / SKILL_FILE).is_file():
                try:
                    resources += read_skill(folder)
                except (OSError, SourceError) as error:
                    problems.append(f"skill '{folder.name}' is not published: {error}")
        if not resources and not problems:
            raise SourceError(f"{self._folder} has no skills: expected folders that have a {SKILL_FILE}")
        return Offer(resources=resources, problems=problems)


def read_skill(folder: Path) -> list[ResourceEntry]:
    """Return a resource for each file of a skill. Raises SourceError and OSError."""
    root = folder.resolve()
    name = root.name
    if not _NAME.fullmatch(name):
        raise SourceError("the name of its folder must have 1 to 64 letters a to z, digits and single hyphens")
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in _list_skill_files(root)}
    frontmatter = _read_frontmatter(files[SKILL_FILE])
    if frontmatter["name"] != name:
        raise SourceError(f"{SKILL_FILE} names it '{frontmatter['name']}', but its folder is '{name}'")
    return [_build_file_entry(name, path, content, frontmatter) for path, content in files.items()]


def _list_skill_files(folder: Path) -> list[Path]:
    """Return the files of a folder, without those behind symbolic links that lead out of it. Raises SourceError."""
    paths = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.resolve().is_relative_to(folder):
            paths.append(path)
    if len(paths) > MAX_FILES or sum(path.stat().st_size for path in paths) > MAX_SIZE:
        raise SourceError(f"it has more than {MAX_FILES} files, or more than {MAX_SIZE // 2**20} MiB")
    return paths


def _read_frontmatter(content: bytes) -> dict[str, Any]:
    """Return the frontmatter of a SKILL.md. Raises SourceError."""
    try:
        match = _FRONTMATTER.match(content.decode())
        if match is None:
            raise SourceError(f"{SKILL_FILE} does not begin with frontmatter: YAML between two lines of ---")
        source = parse_source("yaml", match[1], strict=True)
        # The frontmatter is sent to clients in `_meta`, so its values have to be those of JSON.
        frontmatter: dict[str, Any] = orjson.loads(orjson.dumps(source.data))
    except (ConfigError, UnicodeDecodeError, TypeError) as error:
        raise SourceError(f"the frontmatter of {SKILL_FILE} cannot be read: {error}") from error
    for key in ("name", "description"):
        if not isinstance(frontmatter, dict) or not isinstance(frontmatter.get(key), str) or not frontmatter[key]:
            raise SourceError(f"the frontmatter of {SKILL_FILE} needs the text `{key}`")
    return frontmatter


def _build_file_entry(skill: str, path: str, content: bytes, frontmatter: dict[str, Any]) -> ResourceEntry:
    meta: dict[str, Any] = {DIGEST: f"sha256:{hashlib.sha256(content).hexdigest()}"}
    name = path.rpartition("/")[2]
    description = ""
    if path == SKILL_FILE:
        meta[FRONTMATTER] = frontmatter
        name = skill
        description = frontmatter["description"]
    media_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
    if path.endswith(".md"):
        # Some systems do not know this type.
        media_type = "text/markdown"
    body = _decode_text(content)
    return ResourceEntry(
        f"skill://{skill}/{quote(path)}",
        lambda data: body,
        name,
        description,
        mime_type=media_type,
        size=len(content),
        meta=meta,
    )


def _decode_text(content: bytes) -> str | bytes:
    """Return text if the content is valid UTF-8, else the bytes."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content

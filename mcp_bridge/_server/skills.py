"""SkillMethods: skills/list, skills/get and resources/directory/read (SEP-2640).

The files of a skill are resources, which SkillsSource publishes with a digest. The frontmatter of a skill is in the
`_meta` of its SKILL.md. This module derives the skills and their directories from these resources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS, RpcError
from mcp_bridge._contracts.resource import ResourceEntry
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._protocol.wire import listings
from mcp_bridge._protocol.wire.skills import DIGEST, DIRECTORY_TYPE, FRONTMATTER, SKILL_FILE, SKILLS
from mcp_bridge._server.pages import ItemRenderer, Pages
from mcp_bridge._server.redaction import RequestError
from mcp_bridge._server.requests import Request, truncate_text
from mcp_bridge._server.responses import Responses


class SkillMethods:
    """The MCP methods of skills. `page` is the maximum number of skills of a page."""

    def __init__(self, registry: ToolRegistry, responses: Responses, *, page: int) -> None:
        self._registry = registry
        self._responses = responses
        self._version = (-1, -1)
        # The rendered skills by the URIs of their SKILL.md.
        self._skills: dict[str, dict[str, Any]] = {}
        # The children of each directory by their URIs, with the functions that render them.
        self._directories: dict[str, dict[str, ItemRenderer]] = {}
        self._pages = Pages("skills", page)

    @property
    def extensions(self) -> Mapping[str, Any]:
        """The extensions in the capabilities of the server."""
        return {SKILLS: {"directoryRead": True}}

    @property
    def methods(self) -> Mapping[str, Callable[[Request, Mapping[str, Any]], Any]]:
        """The methods of the extension, by name."""
        return {
            "skills/list": lambda request, params: self._responses.when_ready(self._list_skills, request, params),
            "skills/get": lambda request, params: self._responses.when_ready(self._get_skill, request, params),
            "resources/directory/read": lambda request, params: self._responses.when_ready(
                self._read_directory, request, params
            ),
        }

    def _list_skills(self, request: Request, params: Mapping[str, Any]) -> Any:
        self._refresh()
        return self._responses.render_page(self._pages, request, _read_text(params, "cursor"))

    def _get_skill(self, request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
        self._refresh()
        uri = _require_uri(params)
        skill = self._skills.get(uri)
        if skill is None:
            raise RequestError(INVALID_PARAMS, f"Skill not found: {truncate_text(uri)}", {"uri": truncate_text(uri)})
        return self._responses.with_cache_hints(
            {"skill": skill}, request.version, scope=self._responses.choose_scope(request)
        )

    def _read_directory(self, request: Request, params: Mapping[str, Any]) -> Any:
        self._refresh()
        uri = _require_uri(params)
        children = self._directories.get(uri.removesuffix("/"))
        if children is None:
            message = f"Not a directory of a skill: {truncate_text(uri)}"
            raise RequestError(INVALID_PARAMS, message, {"uri": truncate_text(uri)})
        pages = Pages("resources", len(children))
        pages.replace(children)
        return self._responses.render_page(pages, request, _read_text(params, "cursor"))

    def _refresh(self) -> None:
        version = self._registry.finder.version
        if version == self._version:
            return
        files = [entry for entry in self._registry.resources if DIGEST in entry.meta]
        self._skills = {entry.uri: _render_skill(entry, files) for entry in files if FRONTMATTER in entry.meta}
        self._directories = {}
        for entry in files:
            self._add_to_directories(entry)
        self._pages.replace({uri: partial(_return_rendered, skill) for uri, skill in self._skills.items()})
        self._version = version

    def _add_to_directories(self, entry: ResourceEntry) -> None:
        """Add a file to its directory, this directory to its own, and so on, up to the scheme of the URI."""
        child = entry.uri
        render: ItemRenderer = partial(listings.render_resource, entry)
        parent = child.rpartition("/")[0]
        while parent and not parent.endswith(":/"):
            self._directories.setdefault(parent, {})[child] = render
            directory = {"uri": parent, "name": parent.rpartition("/")[2], "mimeType": DIRECTORY_TYPE}
            render = partial(_return_rendered, directory)
            child = parent
            parent = child.rpartition("/")[0]


def _return_rendered(item: dict[str, Any], version: str) -> dict[str, Any]:
    """Render an item, the same in all protocol versions."""
    return item


def _render_skill(entry: ResourceEntry, files: list[ResourceEntry]) -> dict[str, Any]:
    folder = entry.uri.removesuffix(SKILL_FILE)
    resources = [
        {"uri": file.uri, "digest": file.meta[DIGEST], "size": file.size}
        for file in files
        if file.uri.startswith(folder)
    ]
    return {"uri": entry.uri, "frontmatter": entry.meta[FRONTMATTER], "resources": resources}


def _require_uri(params: Mapping[str, Any]) -> str:
    uri = _read_text(params, "uri")
    if uri is None:
        raise RpcError(INVALID_PARAMS, "params.uri: required field missing")
    return uri


def _read_text(params: Mapping[str, Any], key: str) -> str | None:
    value = params.get(key)
    if value is not None and not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"params.{key}: expected a string")
    return value

"""Builds entries of the MCP registry: `server.json`, in the schema of 2025-12-11."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.packaging.bundle import Description, choose_description
from mcp_bridge._desktop.packaging.project import Project
from mcp_bridge._runtime.urls import split_url
from mcp_bridge._settings.environment import EnvironmentVariable
from mcp_bridge._version import DISTRIBUTION, __version__

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
MAX_TEXT = 100
"""The maximum number of characters of a description and of a title, in the schema."""
MAX_NAME = 200
"""The maximum number of characters of a name, in the schema."""
HOSTS = ("github.com", "www.github.com", "gitlab.com", "www.gitlab.com")
"""The hosts of bundles that the registry accepts."""
_NAMESPACE = re.compile(r"[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)+")
_VERSION_RANGE = re.compile(r"[\^~<>=*|, ]|^latest$|\.x\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Where clients get the server: a package on PyPI, or a bundle with its URL and hash."""

    package: str = DISTRIBUTION
    version: str = __version__
    bundle_url: str | None = None
    digest: str | None = None


def choose_publication(
    package: str | None, version: str | None, bundle: Path | None, bundle_url: str | None
) -> Publication:
    """Choose a package or a bundle by the options of the user. Raises ConfigError for invalid combinations."""
    if (bundle is None) != (bundle_url is None):
        hint = "Use both: the hash of the file is part of the entry"
        raise ConfigError("a bundle needs a file and a URL", where="--bundle, --bundle-url", hint=hint)
    if bundle is not None and bundle_url is not None:
        version = version or "1.0.0"
        _check_exact(version)
        _check_bundle_url(bundle_url)
        try:
            digest = hashlib.sha256(bundle.read_bytes()).hexdigest()
        except OSError as error:
            problem, hint = f"cannot read: {error.strerror}", "Create it with `mcp-bridge export mcpb`"
            raise ConfigError(problem, path=str(bundle), where="--bundle", hint=hint) from None
        return Publication(version=version, bundle_url=bundle_url, digest=digest)
    if package is not None and version is None:
        hint = "Add its exact version with --package-version"
        raise ConfigError(f"the version of '{package}' is missing", where="--package", hint=hint)
    version = version or __version__
    _check_exact(version)
    return Publication(package=package or DISTRIBUTION, version=version)


def build_server_json(
    project: Project, namespace: str, publication: Publication, description: Description
) -> dict[str, Any]:
    """Build the entry. Raises ConfigError for an invalid namespace or text."""
    if not _NAMESPACE.fullmatch(namespace):
        hint = "Use io.github.NAME, or your domain in reverse order, such as com.example"
        raise ConfigError(f"'{namespace}' is not a valid namespace", where="--namespace", hint=hint)
    head: dict[str, Any] = {"$schema": SCHEMA, "name": f"{namespace}/{project.name}"}
    if len(head["name"]) > MAX_NAME:
        hint = f"The registry allows {MAX_NAME}"
        raise ConfigError(f"the name has {len(head['name'])} characters", where="--namespace", hint=hint)
    if project.title:
        head["title"] = _shorten(project.title)
    version = project.version or publication.version
    _check_exact(version)
    text = choose_description(project, description)
    if description.text and len(text) > MAX_TEXT:
        hint = f"The registry allows {MAX_TEXT}"
        raise ConfigError(f"the description has {len(text)} characters", where="--description", hint=hint)
    if publication.bundle_url is None:
        package = _build_package(project, publication)
    else:
        package = {
            "registryType": "mcpb",
            "identifier": publication.bundle_url,
            "fileSha256": publication.digest,
            "transport": {"type": "stdio"},
        }
    return {**head, "description": _shorten(text), "version": version, "packages": [package]}


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def _build_package(project: Project, publication: Publication) -> dict[str, Any]:
    file_argument = {
        "type": "positional",
        "valueHint": "settings",
        "description": "The settings file, or the Python file with tools, to serve",
        "format": "filepath",
        "isRequired": True,
        "placeholder": f"/path/to/{project.entry}",
    }
    package: dict[str, Any] = {
        "registryType": "pypi",
        "identifier": publication.package,
        "version": publication.version,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
    }
    if publication.package == DISTRIBUTION:
        package["packageArguments"] = [{"type": "positional", "value": "serve"}, file_argument]
    if project.variables:
        package["environmentVariables"] = [_build_variable(variable) for variable in project.variables]
    return package


def _build_variable(variable: EnvironmentVariable) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": variable.name,
        "description": f"{variable.name} in the settings of the tools",
        "isRequired": variable.default is None,
        "isSecret": variable.is_secret,
    }
    if variable.default and not variable.is_secret:
        entry["default"] = variable.default
    return entry


def _check_exact(version: str) -> None:
    if _VERSION_RANGE.search(version):
        hint = "The registry accepts exact versions only, such as 1.2.3"
        raise ConfigError(f"'{version}' is not an exact version", where="--package-version", hint=hint)


def _check_bundle_url(url: str) -> None:
    parts = split_url(url)
    if parts.scheme != "https" or parts.netloc.lower() not in HOSTS or "mcp" not in url.lower():
        hint = "The registry accepts https URLs of releases on GitHub or GitLab that contain 'mcp'"
        raise ConfigError(f"'{url}' is not a valid bundle URL", where="--bundle-url", hint=hint)

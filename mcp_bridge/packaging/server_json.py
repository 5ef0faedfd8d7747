"""The entry of a server in the MCP registry: server.json, schema 2025-12-11."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcp_bridge._version import DISTRIBUTION, __version__
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.packaging.manifest import Description, described
from mcp_bridge.packaging.project import Project
from mcp_bridge.settings.environment import Variable

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
LONGEST = 100
"""Characters of a description and of a title."""
LONGEST_NAME = 200
HOSTS = ("github.com", "www.github.com", "gitlab.com", "www.gitlab.com")
"""Where the registry takes bundles from."""
_NAMESPACE = re.compile(r"[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)+")
_RANGE = re.compile(r"[\^~<>=*|, ]|^latest$|\.x\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Where clients get the server: a package of an index, or a bundle at an address, with its content's hash."""

    package: str = DISTRIBUTION
    version: str = __version__
    bundle_url: str | None = None
    digest: str | None = None


def published(package: str | None, version: str | None, bundle: Path | None, bundle_url: str | None) -> Published:
    """What was said about where the server is got from. Raises ConfigError for what does not fit together."""
    if (bundle is None) != (bundle_url is None):
        hint = "Give both: the file, for its hash, and where it will be"
        raise ConfigError("a bundle needs a file and an address", where="--bundle, --bundle-url", hint=hint)
    if bundle is not None and bundle_url is not None:
        return Published(version=_exact(version or "1.0.0"), bundle_url=_address(bundle_url), digest=_digest(bundle))
    if package is not None and version is None:
        hint = "Give its exact version with --package-version"
        raise ConfigError(f"the version of '{package}' is not known", where="--package", hint=hint)
    return Published(package=package or DISTRIBUTION, version=_exact(version or __version__))


def server_json(project: Project, namespace: str, source: Published, description: Description) -> dict[str, Any]:
    """The registry's entry. Raises ConfigError for a namespace or a text that the registry refuses."""
    if not _NAMESPACE.fullmatch(namespace):
        hint = "Write it backwards, as io.github.NAME, or your domain as com.example"
        raise ConfigError(f"'{namespace}' is no namespace", where="--namespace", hint=hint)
    made: dict[str, Any] = {"$schema": SCHEMA, "name": f"{namespace}/{project.name}"}
    if len(made["name"]) > LONGEST_NAME:
        hint = f"The registry takes {LONGEST_NAME}"
        raise ConfigError(f"the name has {len(made['name'])} characters", where="--namespace", hint=hint)
    if project.title:
        made["title"] = _shortened(project.title)
    return {
        **made,
        "description": _text(project, description),
        "version": _exact(project.version or source.version),
        "packages": [_bundle(source) if source.bundle_url else _package(project, source)],
    }


def _text(project: Project, description: Description) -> str:
    text = described(project, description)
    if description.text and len(text) > LONGEST:
        hint = f"The registry takes {LONGEST}"
        raise ConfigError(f"the description has {len(text)} characters", where="--description", hint=hint)
    return _shortened(text)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _package(project: Project, source: Published) -> dict[str, Any]:
    settings = {
        "type": "positional",
        "valueHint": "settings",
        "description": "The settings, or a Python file with tools, that are served",
        "format": "filepath",
        "isRequired": True,
        "placeholder": f"/path/to/{project.entry}",
    }
    ours = [{"type": "positional", "value": "serve"}, settings]
    return {
        "registryType": "pypi",
        "identifier": source.package,
        "version": source.version,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        **({"packageArguments": ours} if source.package == DISTRIBUTION else {}),
        **({"environmentVariables": [_variable(each) for each in project.variables]} if project.variables else {}),
    }


def _bundle(source: Published) -> dict[str, Any]:
    return {
        "registryType": "mcpb",
        "identifier": source.bundle_url,
        "fileSha256": source.digest,
        "transport": {"type": "stdio"},
    }


def _variable(variable: Variable) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": variable.name,
        "description": f"{variable.name} in the settings of the tools",
        "isRequired": variable.default is None,
        "isSecret": variable.secret,
    }
    return made | ({"default": variable.default} if variable.default and not variable.secret else {})


def _exact(version: str) -> str:
    if _RANGE.search(version):
        hint = "The registry takes one exact version, such as 1.2.3"
        raise ConfigError(f"'{version}' is no exact version", where="--package-version", hint=hint)
    return version


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme != "https" or parts.netloc.lower() not in HOSTS or "mcp" not in url.lower():
        hint = "The registry takes https addresses of releases on GitHub or GitLab, with 'mcp' in them"
        raise ConfigError(f"'{url}' is no address of a bundle", where="--bundle-url", hint=hint)
    return url


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise ConfigError(problem, path=str(path), where="--bundle", hint="Make it: export mcpb") from None

"""Builds Dockerfiles. They copy only the files of a project, not the whole folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.packaging.project import Project
from mcp_bridge._desktop.packaging.release import Wheel, format_distribution, format_requirement
from mcp_bridge._version import DISTRIBUTION

BASE = "python:3.13-slim-bookworm"
HOME = "/app"
PORT = 8808
DEFAULT_TOKEN_VARIABLE = "MCP_BRIDGE_TOKEN"  # noqa: S105 - the name of a variable
_NOT_IN_IMAGE_NAME = re.compile(r"[^a-z0-9]+")
_HEALTH_CHECK = f"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{PORT}/health', timeout=5)"


def build_dockerfile(project: Project, *, wheel: Wheel | None = None, wheel_path: str = "", http: bool = False) -> str:
    """Return the text of a Dockerfile, to be built in the folder of the settings.

    mcp-bridge is installed from a package index, or from a wheel at `wheel_path` in that folder. With `http`, the image
    serves on port 8808 and requires the bearer token in a variable. Otherwise, it serves over stdio.
    """
    lines = [
        *_write_usage(project, http=http),
        f"FROM {BASE}",
        "",
        "RUN useradd --create-home --uid 10001 bridge",
        f"WORKDIR {HOME}",
        "",
        *_install_package(project, wheel, wheel_path),
        "",
        *_copy_files(project.files),
        "",
        "USER bridge",
        *_format_entrypoint(project, http=http),
    ]
    return "\n".join(lines) + "\n"


def find_in_context(wheel: Path, root: Path) -> str:
    """Return a wheel's path relative to the build context. Raises ConfigError for a wheel outside it."""
    real = wheel.resolve()
    if not real.is_relative_to(root.resolve()):
        problem = "the wheel is outside the folder of the settings"
        hint = f"Copy it into {root}, where the image is built, and use that path"
        raise ConfigError(problem, path=str(wheel), where="--wheel", hint=hint)
    return real.relative_to(root.resolve()).as_posix()


def _write_usage(project: Project, *, http: bool) -> Sequence[str]:
    image = _NOT_IN_IMAGE_NAME.sub("-", project.name).strip("-") or "tools"
    options = f" -p 127.0.0.1:{PORT}:{PORT}" if http else " -i"
    names = [variable.name for variable in project.variables if variable.default is None]
    if http:
        names.append(project.token_env or DEFAULT_TOKEN_VARIABLE)
    options += "".join(f" -e {name}" for name in dict.fromkeys(names))
    return (
        f"# docker build -t {image} .",
        f"# docker run --rm{options} {image}",
        "# Pass secrets when the container runs, never when the image is built. Only the files named below are copied.",
    )


def _install_package(project: Project, wheel: Wheel | None, wheel_path: str) -> Iterable[str]:
    pip = ["python", "-m", "pip", "install", "--no-cache-dir", "--disable-pip-version-check"]
    if wheel is None:
        yield f"RUN {json.dumps([*pip, format_requirement(project.extras), *project.requirements])}"
        return
    target = f"/tmp/{wheel.name}"  # noqa: S108 - in the image
    yield f"COPY {json.dumps([_escape_source(wheel_path), target])}"
    extras = format_distribution(project.extras).removeprefix(DISTRIBUTION)
    yield f"RUN {json.dumps([*pip, f'{target}{extras}', *project.requirements])}"


def _copy_files(files: Iterable[str]) -> Iterable[str]:
    folders: dict[str, list[str]] = {}
    for name in files:
        folders.setdefault(str(PurePosixPath(name).parent), []).append(_escape_source(name))
    for folder, names in folders.items():
        yield f"COPY {json.dumps([*names, './' if folder == '.' else f'./{_escape_word(folder)}/'])}"


def _escape_source(name: str) -> str:
    """Escape a file name for COPY, which expands patterns."""
    return _escape_word(re.sub(r"[*?\[]", r"[\g<0>]", name))


def _escape_word(text: str) -> str:
    """Escape a text for COPY, which interprets quotes and variables even within JSON."""
    return re.sub(r"""[\\'"$]""", r"\\\g<0>", text)


def _format_entrypoint(project: Project, *, http: bool) -> Iterable[str]:
    command = ["mcp-bridge", "serve", f"{HOME}/{project.entry}"]
    if not http:
        yield f"ENTRYPOINT {json.dumps(command)}"
        return
    yield f"EXPOSE {PORT}"
    yield f"HEALTHCHECK CMD {json.dumps(['python', '-c', _HEALTH_CHECK])}"
    # On addresses other than localhost the server requires a token.
    command += ["--http", f"0.0.0.0:{PORT}", "--token-env", project.token_env or DEFAULT_TOKEN_VARIABLE]
    yield f"ENTRYPOINT {json.dumps(command)}"

"""A Dockerfile for a project: the files it needs, by name, and nothing else of its folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from mcp_bridge._version import DISTRIBUTION
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.packaging.project import Project
from mcp_bridge.packaging.release import Wheel, called, requirement

BASE = "python:3.13-slim-bookworm"
HOME = "/app"
PORT = 8808
TOKEN = "MCP_BRIDGE_TOKEN"  # noqa: S105, a variable's name
_IMAGE = re.compile(r"[^a-z0-9]+")
_ALIVE = f"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{PORT}/health', timeout=5)"


def dockerfile(project: Project, *, wheel: Wheel | None = None, context: str = "", http: bool = False) -> str:
    """The text of a Dockerfile, to be built in the folder of the settings.

    The bridge comes from an index, or from a wheel whose path in that folder is `context`. With `http` it serves on
    port 8808 and asks for the bearer token in a variable, otherwise over stdio.
    """
    lines = [
        *_usage(project, http=http),
        f"FROM {BASE}",
        "",
        "RUN useradd --create-home --uid 10001 bridge",
        f"WORKDIR {HOME}",
        "",
        *_installed(project, wheel, context),
        "",
        *_copied(project.files),
        "",
        "USER bridge",
        *_served(project, http=http),
    ]
    return "\n".join(lines) + "\n"


def in_context(wheel: Path, root: Path) -> str:
    """A wheel's path inside the folder that an image is built in. Raises ConfigError for one outside it."""
    real = wheel.resolve()
    if not real.is_relative_to(root.resolve()):
        hint = f"An image has only what is below {root}: copy the wheel there, and name that one"
        raise ConfigError("outside the folder of the settings", path=str(wheel), where="--wheel", hint=hint)
    return real.relative_to(root.resolve()).as_posix()


def _usage(project: Project, *, http: bool) -> Sequence[str]:
    image = _IMAGE.sub("-", project.name).strip("-") or "tools"
    names = [variable.name for variable in project.variables if variable.default is None]
    names += [_token(project)] if http else []
    given = "".join(f" -e {name}" for name in dict.fromkeys(names))
    ports = f" -p 127.0.0.1:{PORT}:{PORT}" if http else " -i"
    return (
        f"# docker build -t {image} .",
        f"# docker run --rm{ports}{given} {image}",
        "# Secrets are given when it runs, never when it is built. Nothing is copied that is not named below.",
    )


def _installed(project: Project, wheel: Wheel | None, context: str) -> Iterable[str]:
    pip = ["python", "-m", "pip", "install", "--no-cache-dir", "--disable-pip-version-check"]
    if wheel is None:
        yield f"RUN {json.dumps([*pip, requirement(project.extras), *project.requirements])}"
        return
    there = f"/tmp/{wheel.name}"  # noqa: S108, in the image
    yield f"COPY {json.dumps([_source(context), there])}"
    extras = called(project.extras).removeprefix(DISTRIBUTION)
    yield f"RUN {json.dumps([*pip, f'{there}{extras}', *project.requirements])}"


def _copied(files: Iterable[str]) -> Iterable[str]:
    """One line for each folder."""
    folders: dict[str, list[str]] = {}
    for name in files:
        folders.setdefault(str(PurePosixPath(name).parent), []).append(_source(name))
    for folder, names in folders.items():
        yield f"COPY {json.dumps([*names, './' if folder == '.' else f'./{_word(folder)}/'])}"


def _source(name: str) -> str:
    """A file's name as COPY takes it, which reads patterns in it."""
    return _word(re.sub(r"[*?\[]", r"[\g<0>]", name))


def _word(text: str) -> str:
    """A text as COPY takes it, which reads quotes and variables in it, also within JSON."""
    return re.sub(r"""[\\'"$]""", r"\\\g<0>", text)


def _token(project: Project) -> str:
    return project.token_env or TOKEN


def _served(project: Project, *, http: bool) -> Iterable[str]:
    command = ["mcp-bridge", "serve", f"{HOME}/{project.entry}"]
    if not http:
        yield f"ENTRYPOINT {json.dumps(command)}"
        return
    yield f"EXPOSE {PORT}"
    yield f"HEALTHCHECK CMD {json.dumps(['python', '-c', _ALIVE])}"
    # Addresses beyond the machine itself are served only to who has the token.
    yield f"ENTRYPOINT {json.dumps([*command, '--http', f'0.0.0.0:{PORT}', '--token-env', _token(project)])}"

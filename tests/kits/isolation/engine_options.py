"""The options of `docker run` and `podman run` that the simulated engine knows, with what their values may be.

Sources: `docker run --help` of docker 28.2 and `podman run --help` of podman 4.3. Both reject unknown options with exit
code 125. The exit codes and errors were recorded from these two programs, and from a service of podman on Linux.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

BOTH = ("docker", "podman")
NAME = r"[a-zA-Z0-9][a-zA-Z0-9_.-]+"
"""A name of a container (docker: RestrictedNamePattern; podman: define.NameRegex)."""
IMAGE = r"[a-z0-9][a-z0-9._/-]*(:[0-9]+/[a-z0-9._/-]+)?(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?"
"""A reference of an image (distribution/reference)."""


class EngineError(Exception):
    """An error of the engine: its text on stderr, and its exit code."""

    def __init__(self, text: str, code: int = 125) -> None:
        super().__init__(text)
        self.code = code


def _match(pattern: str) -> Callable[[str], bool]:
    return lambda value: re.fullmatch(pattern, value) is not None


class Option(NamedTuple):
    """An option: the check of its value, or None for a switch, and the engines that know it."""

    check: Callable[[str], bool] | None
    engines: Sequence[str] = BOTH


OPTIONS = {
    "--rm": Option(None),
    "--interactive": Option(None),
    "--init": Option(None),
    "--read-only": Option(None),
    "--no-healthcheck": Option(None),
    "--pull": Option(_match("always|missing|never")),
    "--log-driver": Option(_match("none|json-file|k8s-file|journald|passthrough")),
    "--stop-timeout": Option(_match("[0-9]+")),
    "--name": Option(_match(NAME)),
    "--label": Option(_match(r"(?s)[^=]+=.*")),
    "--cap-drop": Option(_match("ALL|[A-Z_]+")),
    "--security-opt": Option(_match("no-new-privileges|label=disable")),
    "--network": Option(_match(f"none|bridge|host|{NAME}")),
    "--pids-limit": Option(_match("-1|[0-9]+")),
    "--memory": Option(_match("[0-9]+[bkmg]?")),
    "--memory-swap": Option(_match("-1|[0-9]+[bkmg]?")),
    "--cpus": Option(_match(r"[0-9]+(\.[0-9]+)?")),
    "--user": Option(_match(r"[\w.-]+(:[\w.-]+)?")),
    "--tmpfs": Option(_match(r"/[^:]*(:size=[0-9]+[kmg]?)?")),
    "--mount": Option(lambda value: bool(read_mount(value))),
    "--workdir": Option(_match("(?s)/.*")),
    "--env": Option(_match(r"(?s)[^=*]+(=.*)?")),
    "--entrypoint": Option(_match("(?s).+")),
    "--http-proxy": Option(None, ("podman",)),
    "--image-volume": Option(_match("bind|tmpfs|ignore"), ("podman",)),
    "--read-only-tmpfs": Option(None, ("podman",)),
    "--userns": Option(_match("keep-id"), ("podman",)),
}


class RunOrder(NamedTuple):
    """The arguments of `run`: the options with their values, the image, and the arguments of the program."""

    options: dict[str, list[str]]
    image: str
    words: Sequence[str]

    def get(self, name: str, default: str = "") -> str:
        return self.options.get(name, [default])[-1]

    def list_mounts(self) -> list[dict[str, str]]:
        return [read_mount(value) for value in self.options.get("--mount", [])]


def parse_run(engine: str, arguments: Sequence[str]) -> RunOrder:
    """Parse the arguments after `run`, as strictly as the engine. Raises EngineError."""
    options: dict[str, list[str]] = {}
    words = list(arguments)
    while words and words[0].startswith("-"):
        name, has_value, value = words.pop(0).partition("=")
        option = OPTIONS.get(name)
        if option is None or engine not in option.engines:
            raise EngineError(f"unknown flag: {name}")
        if option.check is not None:
            if not has_value and not words:
                raise EngineError(f"flag needs an argument: {name}")
            value = value if has_value else words.pop(0)
            if not option.check(value):
                raise EngineError(f'invalid argument "{value}" for "{name}" flag')
        options.setdefault(name, []).append(value)
    if not words:
        raise EngineError('"run" requires at least 1 argument')
    image = words.pop(0)
    if not re.fullmatch(IMAGE, image):
        raise EngineError(f"invalid reference format: {image}")
    return RunOrder(options, image, words)


def read_mount(value: str) -> dict[str, str]:
    """Return the fields of a value of `--mount`, which is one line of CSV. Raises EngineError."""
    rows = list(csv.reader(io.StringIO(value), strict=True))
    if len(rows) != 1:
        raise EngineError(f"invalid mount {value!r}")
    fields = {}
    for field in rows[0]:
        key, _, text = field.partition("=")
        if key not in ("type", "src", "dst", "readonly"):
            raise EngineError(f'unexpected key {key!r} in "{field}"')
        fields[key] = text
    if fields.get("type") != "bind" or not fields["src"].startswith("/") or not fields["dst"].startswith("/"):
        raise EngineError(f"invalid mount {value!r}")
    if fields["dst"] == "/":
        raise EngineError("invalid mount config for type bind: invalid specification: destination can't be '/'")
    return fields

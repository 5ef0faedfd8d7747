"""What can be said of an installed command before it is started: program, settings, folder, variables."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mcp_bridge.cli.doctor.findings import Finding
from mcp_bridge.clients.client import Client, Launch
from mcp_bridge.clients.reading import names_bridge, settings_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An installed server: whose it is, what would be started, the command that writes its entry again, and whether
    it is a bridge."""

    client: Client
    launch: Launch
    again: str
    ours: bool = True


def preflight(subject: Subject) -> list[Finding]:
    """What is wrong, or fragile, about a command as it stands. One that is not ok means that no start can succeed."""
    if not any(subject.launch.argv[:1]):
        advice = f"Doctor looks at servers that are started, not at addresses. For a bridge: {subject.again}"
        return [Finding("command", False, "the entry names no command", advice)]
    return [*_folder(subject), *_program(subject), *_settings(subject), *_variables(subject)]


def python_of(program: str) -> str:
    """The Python that a program runs on: itself, what its first line names, or the one beside it.

    The first line of a script in a folder with a space in its name is that of a shell.
    """
    beside = str(Path(program).with_name("python")) if os.path.isabs(program) else "python"
    candidates = (program, _interpreter(Path(program)), beside if os.path.exists(beside) else None)
    return next((one for one in candidates if one and Path(one).name.lower().startswith("python")), "python")


def _folder(subject: Subject) -> Iterator[Finding]:
    if not os.path.isdir(subject.launch.folder):
        detail = f"{subject.client.title} would start it in {subject.launch.folder}, which is not there"
        yield Finding("folder", False, detail, "Make that folder, or take its path out of the entry.")


def _program(subject: Subject) -> Iterator[Finding]:
    word, title, again = subject.launch.argv[0], subject.client.title, f"Write the whole path: {subject.again}"
    if not os.path.dirname(word):
        found = shutil.which(word, path=subject.launch.environ.get("PATH", os.defpath))
        if found is None:
            detail = f"there is no '{word}' on the PATH that {title} has"
            yield Finding("command", False, detail, again)
        else:
            detail = f"'{word}' has no path: today {title} would find {found}"
            yield Finding("command", True, detail, f"Another PATH, and it is gone. {again}")
        return
    path = subject.launch.folder / word
    if (problem := _unusable(path)) is not None:
        yield Finding("command", False, *problem(subject))
    elif not os.path.isabs(word):
        detail = f"the path '{word}' is relative: it holds in {subject.launch.folder} alone"
        yield Finding("command", True, detail, again)


def _unusable(path: Path) -> _Problem | None:
    if not os.path.exists(path):  # Path's own raises where it may not look
        return _Problem(f"there is no {path}", "It was moved or deleted. Write the entry again: {again}")
    if os.path.isdir(path):
        return _Problem(f"{path} is a folder, not a program", "Write the entry again: {again}")
    if not os.access(path, os.X_OK):
        return _Problem(f"{path} is not executable", f"chmod +x '{path}', or write the entry again: {{again}}")
    interpreter = _interpreter(path)
    if interpreter is not None and not os.path.exists(interpreter):
        what = f"{path} runs on {interpreter}, which is not there"
        return _Problem(what, "Its environment was moved or deleted. Write the entry again: {again}")
    return None


@dataclass(frozen=True, slots=True)
class _Problem:
    """What is wrong, and a cure in which `{again}` stands for the command that writes the entry again."""

    what: str
    cure: str

    def __call__(self, subject: Subject) -> tuple[str, str]:
        return self.what, self.cure.replace("{again}", subject.again)


def _interpreter(program: Path) -> str | None:
    """What the first line of a script names, where it has such a line."""
    try:
        with program.open("rb") as file:
            line = file.readline(1024)
    except OSError:
        return None
    words = line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []
    return words[0] if words and os.path.isabs(words[0]) else None


def _settings(subject: Subject) -> Iterator[Finding]:
    argv, title, folder = subject.launch.argv, subject.client.title, subject.launch.folder
    if not names_bridge(argv) or "serve" not in argv:
        return
    if any(word.split("=")[0] == "--http" for word in argv):
        detail = f"the entry has --http, and {title} speaks to what it starts over stdin and stdout"
        yield Finding("command", False, detail, f"Leave it out: {subject.again}")
    written = settings_of(argv)
    if written is None:
        detail = f"the entry names no settings: what is served depends on the folder that {title} starts it in"
        yield Finding("settings", True, detail, f"Name them: {subject.again}")
    elif not os.path.exists(folder / written):
        moved = "It was moved or deleted" if os.path.isabs(written) else f"A relative path is looked for in {folder}"
        yield Finding("settings", False, f"there is no {written}", f"{moved}. Where it is now: {subject.again}")
    elif not os.path.isabs(written):
        detail = f"the path '{written}' is relative: it holds in {folder} alone"
        yield Finding("settings", True, detail, f"Write the whole path: {subject.again}")


def _variables(subject: Subject) -> Iterator[Finding]:
    for name in subject.launch.unresolved:
        title, keeps = subject.client.title, subject.client.surroundings.keeps_secrets
        detail = f"the entry refers to the variable {name}, which is not set where {title} runs"
        if keeps:
            detail += f"; whether {title} keeps it itself is not looked into"
        yield Finding(f"secret {name}", keeps, detail, subject.client.secrets or f"Set {name} where it runs.")

"""For each item of the checklist, what spoils the good module of its type in that item alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tests.kits.cli.examining import Module
from tests.kits.cli.validated_modules import CONFIGS, PYPROJECT, project, source


@dataclass(frozen=True)
class Fault:
    """The good module of a type, with one text in the place of another, or with other files."""

    item: str
    kind: str
    lines: tuple[str, ...]

    @property
    def timeout(self) -> str:
        """Seconds that a step may take."""
        return next(iter(self.words("timeout")), "20")

    @property
    def is_alone(self) -> bool:
        """Whether it ends or blocks its process."""
        return "alone" in self.lines

    def module(self, folder: Path) -> Module:
        """The spoilt module, written to a folder, with the configuration that its type needs."""
        config = CONFIGS.get(self.kind, "{}")
        return Module(path=self.written(folder), config=config, timeout=self.timeout)

    def written(self, folder: Path) -> Path:
        """The spoilt module as a project in a folder."""
        code = source(self.kind)
        for old, new in self._changes():
            assert old in code, f"{self.item}: the good module has no {old!r}"
            code = code.replace(old, new)
        files = dict.fromkeys(self.words("drop"), "")
        for name in self.words("move"):
            files |= {"sample/__init__.py": "", name: code}
        for line in self.lines:
            if line.startswith("point"):
                files["pyproject.toml"] = PYPROJECT.replace('sample = "sample:mount"', line.removeprefix("point"))
        return project(folder, code, files)

    def words(self, first: str) -> list[str]:
        """The words that follow this one."""
        return [word for line in self.lines if line.split(" ")[0] == first for word in line.split(" ")[1:]]

    def _changes(self) -> Iterator[tuple[str, str]]:
        """What stands in the place of what: lines with `-`, and those with `+` that follow."""
        marked = [line for line in self.lines if line.startswith(("-", "+"))]
        parts = [[line[1:] for line in lines] for _, lines in groupby(marked, lambda line: line[0])]
        for old, new in zip(parts[::2], parts[1::2], strict=True):
            yield "\n".join(old), "\n".join(new)


def faults(name: str = "validated_faults.txt") -> dict[str, Fault]:
    """All of a file, by their names."""
    text = Path(__file__).with_name(name).read_text("utf-8")
    found = re.findall(r"^# ([^\n]+), in a (\w+)\n(.*?)(?=^# |\Z)", text, re.MULTILINE | re.DOTALL)
    made = [Fault(item, kind, tuple(text.strip("\n").split("\n"))) for item, kind, text in found]
    assert len({one.item for one in made}) == len(made)
    return {one.item: one for one in made}

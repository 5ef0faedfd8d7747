"""What was found: an item, how it came out, and for what fails what was found and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mcp_bridge.amplifier.validation.items import Item, checklist

State = Literal["passed", "failed", "warned", "skipped"]
_WORST = ("failed", "passed", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How one item came out. `found` says what was found, or why it was not checked; `advice` what to do."""

    item: Item
    state: State
    found: str = ""
    advice: str = ""

    def to_dict(self) -> dict[str, Any]:
        """One object, flat."""
        item = {key: value for key, value in asdict(self.item).items() if key != "kind"}
        return {**item, "state": self.state, "found": self.found, "advice": self.advice}


class Findings:
    """What is known so far, by the ids of items. What fails once has failed, and the first word about it stays."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str, str]] = {}

    def add(self, item: str, state: str, found: str = "", advice: str = "") -> None:
        """Take one in: `failed`, `passed`, or `skipped`."""
        known = self._known.get(item)
        if known is None or _WORST.index(state) < _WORST.index(known[0]):
            self._known[item] = (state, found, advice)

    def failed(self, item: str) -> bool:
        """Whether an item has failed."""
        return self._known.get(item, ("",))[0] == "failed"

    def told(self, kind: str | None) -> list[Finding]:
        """Every item of a type; what nothing is known about was not reached."""
        return [self._finding(item) for item in checklist(kind)]

    def _finding(self, item: Item) -> Finding:
        state, found, advice = self._known.get(item.id, ("skipped", "not reached", ""))
        if state == "failed":
            return Finding(
                item=item, state="failed" if item.level == "required" else "warned", found=found, advice=advice
            )
        return Finding(item=item, state="passed" if state == "passed" else "skipped", found=found)


def named(findings: Iterable[Finding], state: State) -> list[str]:
    """The ids of items that came out so."""
    return [finding.item.id for finding in findings if finding.state == state]

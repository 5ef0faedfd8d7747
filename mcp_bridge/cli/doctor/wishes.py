"""What a person wants of `doctor`, beside what it is to look at."""

from __future__ import annotations

from dataclasses import dataclass

EVERYWHERE = "all"
"""Stands for every client on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The options of `doctor`; `patience` is in seconds."""

    command: str | None = None
    scope: str | None = None
    name: str | None = None
    call: str | None = None
    as_json: bool = False
    patience: float | None = None

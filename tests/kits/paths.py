"""Paths of the repository and of the kits."""

from pathlib import Path

KITS = Path(__file__).resolve().parent
ROOT = KITS.parents[1]

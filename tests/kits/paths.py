"""Where the repository and the kits are."""

from pathlib import Path

KITS = Path(__file__).resolve().parent
ROOT = KITS.parents[1]

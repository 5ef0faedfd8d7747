"""What is handed on, and what makes a project, share how wheels are built."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "packaging"))

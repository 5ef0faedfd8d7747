"""Locks and fetches the public modules, serves plans with them, and calls their tools as a client."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.kits.amplifier.public_modules import __doc__ as purpose
from tests.kits.amplifier.public_modules.agent_visits import visit_agents
from tests.kits.amplifier.public_modules.checks import Report
from tests.kits.amplifier.public_modules.model_visits import visit_models
from tests.kits.amplifier.public_modules.plans import Repositories
from tests.kits.amplifier.public_modules.tool_visits import visit_tools


def main() -> None:
    parser = argparse.ArgumentParser(description=str(purpose).splitlines()[0])
    parser.add_argument("--clones", type=Path, help="a folder with clones of the repositories")
    parser.add_argument("--only", choices=["tools", "agents", "models"], help="visit only these")
    args = parser.parse_args()
    checks = Report()
    with tempfile.TemporaryDirectory() as folder:
        repositories = Repositories(Path(folder).resolve(), args.clones)
        repositories.lock_all()
        repositories.fetch_foundation()
        for name, visit in {"tools": visit_tools, "agents": visit_agents, "models": visit_models}.items():
            if args.only in (None, name):
                visit(repositories, checks)
    raise SystemExit(1 if checks.failed else 0)


if __name__ == "__main__":
    main()

"""Examines many modules in one process: starting one for each module takes ten times as long as the check itself."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge._integrations.amplifier.validation.checklist import ItemFinding, ItemFindings, list_ids
from mcp_bridge._integrations.amplifier.validation.examiner import Examiner
from mcp_bridge._integrations.amplifier.validation.structure import check_structure, find_module
from mcp_bridge._integrations.amplifier.validation.worker import ModuleExamination
from mcp_bridge._runtime import process_group
from mcp_bridge._runtime.event_loop import make_loop_factory
from tests.kits.paths import ROOT


@dataclass(frozen=True, kw_only=True)
class Module:
    """A module to examine: its path or name, and what the command's options give."""

    path: Path | str
    kind: str | None = None
    config: str = "{}"
    timeout: str = "20"


@dataclass(kw_only=True)
class Result:
    """What an examination found."""

    kind: str | None
    how: str
    findings: ItemFindings = field(default_factory=ItemFindings)

    @property
    def items(self) -> list[ItemFinding]:
        """The findings, one for each item of the checklist."""
        return self.findings.build_findings(self.kind)

    @property
    def wrong(self) -> tuple[list[str], list[str]]:
        """The required items that failed, and the others."""
        return list_ids(self.items, "failed"), list_ids(self.items, "warned")

    @property
    def skipped(self) -> set[str]:
        """The items that were not checked."""
        return set(list_ids(self.items, "skipped"))

    def item(self, name: str) -> ItemFinding:
        """The finding about an item."""
        return next(finding for finding in self.items if finding.item.id == name)


def examine(modules: Mapping[str, Module], folder: Path) -> dict[str, Result]:
    """Examine modules as `module validate` does. None of them may end, block or print in the process they share."""
    results, orders = {}, {}
    for name, module in modules.items():
        results[name] = Result(kind=module.kind, how="--type" if module.kind else "")
        subject = find_module(str(module.path), folder)
        if check_structure(subject, results[name].findings):
            order = {
                "id": subject.id,
                "path": str(subject.path),
                "kind": module.kind,
                "patience": float(module.timeout),
            }
            orders[name] = {**order, "config": json.loads(module.config)}
    command = process_group.wrap_command(
        [sys.executable, "-m", "tests.kits.cli.examining"]
    )  # the supervisor has no other processes
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([*orders.values()]) + "\n")
        process.stdin.flush()  # and stays open: the supervisor ends when it is closed
        lines = process.stdout.read().splitlines()
    for name, line in zip(orders, lines, strict=True):
        for message in json.loads(line):
            if message["say"] == "found":
                found = (message["item"], message["state"], message["found"], message["advice"])
                results[name].findings.add(*found)
            elif message["say"] == "kind":
                results[name].kind, results[name].how = message["kind"], message["how"]
        results[name].findings.add("stdout", "passed")
    return results


def main() -> None:
    """Examine the modules of the orders on stdin; print a line with the messages about each."""
    for order in json.loads(sys.stdin.readline()):
        messages: list[dict[str, Any]] = []
        paths, loaded = sys.path[:], set(sys.modules)
        examiner = Examiner(messages.append, order["patience"], (), str)
        anyio.run(
            ModuleExamination(order, messages.append, examiner).run,
            backend_options={"loop_factory": make_loop_factory()},
        )
        logging.getLogger().removeHandler(examiner.log_counter)
        sys.path[:] = paths
        folder = str(Path(order["path"]).parent)
        for name in set(sys.modules) - loaded:  # the next module has the same name
            if str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
                del sys.modules[name]
        print(json.dumps(messages, default=str), flush=True)


if __name__ == "__main__":
    main()

"""Public modules of agents, unmodified and pinned, under the contract suites (docs/module-tests.md has the table).

Not a part of the tests: `make modules CLONES=FOLDER`, or `python -m tests.kits.amplifier.public_suites FOLDER`, where
FOLDER has clones as NAME, NAME.git or OWNER+NAME/repo. Prints the rules that each module breaks, and ends with 1 where
they are not those in the table.
"""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge._integrations.amplifier.behavior import (
    ContextBehaviorTests,
    OrchestratorBehaviorTests,
    ProviderBehaviorTests,
    find_violations,
)

LOOP_RULES = {
    "a_history_in_the_format_of_the_contract_is_continued",
    "only_one_provider_is_used_and_default_provider_selects_it",
    "prompt_submit_modify_changes_the_prompt",
    "tool_pre_inject_context_reaches_the_model_and_the_call_runs",
    "tool_pre_modify_changes_the_arguments",
}
"""What both public loops break."""
MODULES: dict[str, tuple[str, Any, set[str]]] = {
    "loop-basic": (
        "937a53f",
        OrchestratorBehaviorTests,
        {*LOOP_RULES, "a_call_without_arguments_runs", "max_iterations_stops_a_model_that_never_stops"},
    ),
    "loop-streaming": (
        "e5438b4",
        OrchestratorBehaviorTests,
        {*LOOP_RULES, "a_call_that_fails_emits_tool_error", "events_come_in_order_with_their_data"},
    ),
    "context-simple": (
        "54ca117",
        ContextBehaviorTests,
        {"a_message_without_a_role_raises_value_error_and_is_not_stored", "compaction_emits_its_events"},
    ),
    "provider-mock": (
        "934d3f1",
        ProviderBehaviorTests,
        {
            "get_info_describes_the_provider",
            "get_info_returns_a_provider_info_of_amplifier_core",
            "it_has_the_members_of_the_contract",
            "list_models_describes_models",
            "the_window_in_its_defaults_leaves_room_for_a_request",
        },
    ),
}
"""Modules by name: the commit, the suite, and the rules that they break."""
SECONDS = 30.0  # the compaction of context-simple is slow


def unpack(clones: Path, name: str, commit: str, folder: Path) -> None:
    """Write the files of a commit into a folder."""
    repository = f"amplifier-module-{name}"
    places = [clones / repository, clones / f"{repository}.git", *clones.glob(f"*+{repository}/repo")]
    clone = next(place for place in places if place.exists())
    archive = subprocess.run(["git", "-C", str(clone), "archive", commit], capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)


async def check_module(name: str) -> bool:
    """Print what a module breaks, and return whether that is what the table says."""
    _, suite, expected = MODULES[name]
    module = importlib.import_module(f"amplifier_module_{name.replace('-', '_')}")
    found = await find_violations(suite, module, host="core", timeout=SECONDS)
    for rule, problem in found.items():
        print(f"{name}: {rule}: {problem.splitlines()[0]:.160}")
    for rule in sorted(set(found) ^ expected):
        print(f"FAILED: {name}: {rule} is {'' if rule in found else 'not '}broken, and the table says otherwise")
    return set(found) == expected


async def check_modules() -> bool:
    return all([await check_module(name) for name in MODULES])


def main() -> None:
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as given:
        for name, (commit, _, _) in MODULES.items():
            folder = Path(given) / name
            folder.mkdir()
            unpack(Path(sys.argv[1]), name, commit, folder)
            sys.path.insert(0, str(folder))
        is_expected = anyio.run(check_modules)
    sys.stdout.flush()
    os._exit(not is_expected)  # amplifier-core can crash an interpreter that exits after it has emitted an event


if __name__ == "__main__":
    main()

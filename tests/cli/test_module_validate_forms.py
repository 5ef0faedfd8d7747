"""`module validate` and the many forms that good modules have, and bad ones that fail in several places."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bridge._integrations.amplifier.validation.checklist import KINDS
from tests.kits.cli.cli_running import Inside
from tests.kits.cli.examining import Module, examine
from tests.kits.cli.validated_faults import faults
from tests.kits.cli.validated_modules import HOOK, project, source

MOUNTED = 'await coordinator.mount("tools", Sample(), name="sample")'
FORMS = faults("validated_forms.txt")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wrong_is_found_wherever_it_shows_and_nothing_else(tmp_path: Path, kind: str) -> None:
    forms = {name: form for name, form in FORMS.items() if form.kind == kind and not form.is_alone}
    found = examine({name: form.module(tmp_path / name) for name, form in forms.items()}, tmp_path)
    assert {name: found[name].wrong for name in forms} == {
        name: (form.words("failed"), form.words("warned")) for name, form in forms.items()
    }


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if form.is_alone])
def test_what_ends_or_blocks_its_process_is_found_in_the_command(inside: Inside, tmp_path: Path, name: str) -> None:
    form = FORMS[name]
    done = inside("module", "validate", form.written(tmp_path / "sample"), "--json", "--timeout", form.timeout)
    assert (done.json["failed"], done.json["warned"]) == (form.words("failed"), form.words("warned")), done.out


def test_handlers_that_are_registered_once_all_is_mounted_are_checked_too(tmp_path: Path) -> None:
    late = HOOK.replace("async def mount(coordinator, config):", "async def mount(coordinator, config):\n    pass\n\n\n"
                        "async def on_session_ready(coordinator):\n    config = {}")  # fmt: skip
    code = source("hook").replace(HOOK, late.replace("    return cleanup", "    coordinator.register_cleanup(cleanup)"))
    found = examine({"late": Module(path=project(tmp_path / "sample", code))}, tmp_path)["late"]
    assert found.wrong == ([], ["hook.logs", "hook.config"])


def test_several_tools_of_a_module_are_all_checked(tmp_path: Path) -> None:
    more = "".join(
        f'    await coordinator.mount("tools", type("Other", (Sample,), {{"name": "other{n}"}})(), name="other{n}")\n'
        for n in range(30)
    )
    last = '    await coordinator.mount("tools", type("Last", (Sample,), {"name": ""})(), name="last")\n'
    code = source("tool").replace(f"    {MOUNTED}\n", f"    {MOUNTED}\n{more}{last}")
    found = examine({"several": Module(path=project(tmp_path / "sample", code))}, tmp_path)["several"]
    assert found.wrong[0] == ["tool.name"]
    assert found.item("tool.name").found == "`name` of 'last' is ''"

"""`module validate` and the many forms that good modules have, and bad ones that fail in several places."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.cli.cli_running import Inside
from tests.kits.cli.validated_faults import Fault, faults
from tests.kits.cli.validated_modules import CONFIGS, HOOK, project, source

MOUNTED = 'await coordinator.mount("tools", Sample(), name="sample")'
FORMS = faults("validated_forms.txt")


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_what_is_wrong_is_found_wherever_it_shows_and_nothing_else(inside: Inside, tmp_path: Path, form: Fault) -> None:
    folder = form.written(tmp_path / "sample")
    config = CONFIGS.get(form.kind, "{}")
    done = inside("module", "validate", folder, "--json", "--config", config, "--timeout", form.timeout)
    assert (done.json["failed"], done.json["warned"]) == (form.words("failed"), form.words("warned")), done.out


def test_handlers_that_are_registered_once_all_is_mounted_are_checked_too(inside: Inside, tmp_path: Path) -> None:
    late = HOOK.replace("async def mount(coordinator, config):", "async def mount(coordinator, config):\n    pass\n\n\n"
                        "async def on_session_ready(coordinator):\n    config = {}")  # fmt: skip
    code = source("hook").replace(HOOK, late.replace("    return cleanup", "    coordinator.register_cleanup(cleanup)"))
    done = inside("module", "validate", project(tmp_path / "sample", code), "--json")
    assert done.json["failed"] == []
    assert done.json["warned"] == ["hook.logs", "hook.config"]


def test_several_tools_of_a_module_are_all_checked(inside: Inside, tmp_path: Path) -> None:
    more = "".join(
        f'    await coordinator.mount("tools", type("Other", (Sample,), {{"name": "other{n}"}})(), name="other{n}")\n'
        for n in range(30)
    )
    last = '    await coordinator.mount("tools", type("Last", (Sample,), {"name": ""})(), name="last")\n'
    code = source("tool").replace(f"    {MOUNTED}\n", f"    {MOUNTED}\n{more}{last}")
    done = inside("module", "validate", project(tmp_path / "sample", code), "--json")
    assert done.json["failed"] == ["tool.name"]
    [told] = [item for item in done.json["items"] if item["id"] == "tool.name"]
    assert told["found"] == "`name` of 'last' is ''"

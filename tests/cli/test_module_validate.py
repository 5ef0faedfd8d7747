"""`module validate`: a module held against the checklist of its contract, whatever the module does."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from mcp_bridge._integrations.amplifier.validation.checklist import ITEMS, KINDS, list_items
from tests.kits.cli.cli_running import Done, Inside
from tests.kits.cli.examining import Module, examine
from tests.kits.cli.validated_faults import faults
from tests.kits.cli.validated_modules import BODIES, CONFIGS, project, source
from tests.kits.paths import ROOT

FAULTS = faults()
IN_THE_COMMAND = ("stdout", "mount.leftovers")
"""Items about the process that a module runs in, which is then not shared with others."""


def check(inside: Inside, target: Path | str, kind: str = "", timeout: str = "20") -> Done:
    """The command's answer about a module, as JSON."""
    return inside("module", "validate", target, "--json", "--timeout", timeout, "--config", CONFIGS.get(kind, "{}"))


def test_a_good_module_of_each_type_passes_without_a_warning(tmp_path: Path) -> None:
    modules = {
        kind: Module(path=project(tmp_path / kind, source(kind)), config=CONFIGS.get(kind, "{}")) for kind in KINDS
    }
    for kind, found in examine(modules, tmp_path).items():
        assert (found.wrong, found.kind) == (([], []), kind)
        assert found.skipped <= {"mount.ready"}


def test_every_item_has_a_module_that_fails_it() -> None:
    assert sorted(FAULTS) == sorted(item.id for item in ITEMS)
    assert set(BODIES) == set(KINDS)


@pytest.mark.parametrize("part", sorted({item.id.partition(".")[0] for item in ITEMS} - {"stdout"}))
def test_each_item_fails_alone(tmp_path: Path, part: str) -> None:
    items = {item.id: item for item in ITEMS if item.id.partition(".")[0] == part and item.id not in IN_THE_COMMAND}
    found = examine({name: FAULTS[name].module(tmp_path / name) for name in items}, tmp_path)
    assert {name: found[name].wrong for name in items} == {
        name: ([name], []) if item.level == "required" else ([], [name]) for name, item in items.items()
    }
    for name in items:
        assert found[name].item(name).found
        assert found[name].item(name).advice


@pytest.mark.parametrize(("name", "code"), [("stdout", 1), ("mount.leftovers", 0), ("tool.result", 1)])
def test_the_command_fails_where_a_required_item_does(inside: Inside, tmp_path: Path, name: str, code: int) -> None:
    done = check(inside, FAULTS[name].written(tmp_path / "sample"), FAULTS[name].kind, FAULTS[name].timeout)
    assert (done.json["failed"], done.json["warned"]) == (([name], []) if code else ([], [name]))
    assert done.code == code


def test_the_examples_pass(tmp_path: Path) -> None:
    folder = ROOT / "config" / "amplifier"
    found = examine({name: Module(path=folder / name) for name in ("greeter.py", "manners.py")}, tmp_path)
    assert [one.wrong[0] for one in found.values()] == [[], []]


def test_a_person_gets_a_line_for_each_item_and_what_to_do(inside: Inside, tmp_path: Path) -> None:
    done = inside("module", "validate", FAULTS["tool.result"].written(tmp_path / "sample"))
    lines = done.out.splitlines()
    assert (done.code, done.err) == (1, "")
    assert [line.split()[1].rstrip(":") for line in lines[:-1] if line[0] != " "] == [
        item.id for item in list_items("tool")
    ]
    failed = next(number for number, line in enumerate(lines) if line.startswith("FAIL"))
    assert lines[failed] == "FAIL tool.result: 'sample' with {'text': 'sample'} returned a str"
    assert lines[failed + 1] == "     Return ToolResult(success=..., output=..., error=...) (Tool contract)"
    assert lines[-1] == (
        f"{tmp_path / 'sample'}: tool (from __amplifier_module_type__); 1 requirement not met: tool.result"
    )


def test_a_terminal_gets_a_table(inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout.__class__, "isatty", lambda stream: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    done = inside("module", "validate", FAULTS["tool.result"].written(tmp_path / "sample"))
    assert done.code == 1
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.out)
    assert re.search(r"FAIL +tool.result +Tool contract +'sample' with", shown)
    assert re.search(r"^ +Return ToolResult", shown, re.MULTILINE)


def test_json_has_every_documented_key(inside: Inside, tmp_path: Path) -> None:
    done = check(inside, project(tmp_path / "sample", source("tool")))
    assert done.err == ""
    assert set(done.json) == {"module", "type", "type_from", "ok", "failed", "warned", "items"}
    for item in done.json["items"]:
        assert set(item) == {"id", "level", "contract", "what", "state", "found", "advice"}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nowhere.py"], "nowhere.py: no such file or folder"),
        (["file:///nowhere/at/all"], "no such file or folder"),
        (
            ["no-such-module"],
            "'no-such-module' is neither a folder nor a file, and no module of that name is installed",
        ),
        (["git+https://localhost/it@main"], "git+https://localhost/it@main is a URL, and this command fetches nothing"),
        (["notes.txt"], "notes.txt is a file, but not a Python file"),
        ([".", "--config", "{"], "--config: invalid JSON"),
        ([".", "--config", "[]"], "--config: found list"),
        ([".", "--timeout", "nan"], "--timeout: found nan"),
        ([".", "--type", "tools"], "--type"),
        (["./" + "x" * 5000], "File name too long"),
    ],
)
def test_what_cannot_be_used_is_a_usage_error(inside: Inside, tmp_path: Path, args: list[str], says: str) -> None:
    (tmp_path / "notes.txt").write_text("")
    done = inside("module", "validate", *args)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


def test_the_type_is_what_is_said_or_named_or_mounted(tmp_path: Path) -> None:
    expected = {
        "said": ("tool", "__amplifier_module_type__"),
        "mounted": ("hook", "what it mounts"),
        "given": ("tool", "--type"),
        "a_context": ("context", "its name"),
    }
    modules = {}
    for name, (kind, _) in expected.items():
        code = source(kind)
        if name != "said":
            code = code.replace(f'__amplifier_module_type__ = "{kind}"', "")
        (tmp_path / f"{name}.py").write_text(code, "utf-8")
        modules[name] = Module(path=tmp_path / f"{name}.py", kind="tool" if name == "given" else None)
    found = examine(modules, tmp_path)
    assert {name: (one.kind, one.how) for name, one in found.items()} == expected
    assert [one.wrong[0] for one in found.values()] == [[]] * 4


def test_a_type_that_is_asked_for_is_what_it_has_to_be(inside: Inside, tmp_path: Path) -> None:
    done = inside("module", "validate", project(tmp_path / "sample", source("tool")), "--json", "--type", "hook")
    assert (done.json["type"], done.json["failed"], done.json["warned"]) == (
        "hook",
        ["mount.mounts"],
        ["structure.type"],
    )
    [told] = [item for item in done.json["items"] if item["id"] == "mount.mounts"]
    assert told["found"] == "its type is hook, and it mounted something of type tool"
    assert "--type tool" in told["advice"]


def test_a_module_that_needs_the_extra_names_it(tmp_path: Path) -> None:
    needs = 'raise ModuleNotFoundError("No module named \'amplifier_core\'", name="amplifier_core.models")\nlogger = '
    code = source("tool").replace("logger = ", needs)
    found = examine({"needs": Module(path=project(tmp_path / "sample", code))}, tmp_path)["needs"]
    assert found.wrong[0] == ["structure.import"]
    assert "pip install 'mcp-tool-bridge[amplifier]'" in found.item("structure.import").found


@pytest.mark.skipif(find_spec("amplifier_core") is None, reason="the extra is not installed")
def test_modules_with_the_names_of_amplifier_core_pass_too(tmp_path: Path) -> None:
    modules = {}
    for kind in KINDS:
        code = source(kind).replace("from mcp_bridge.amplifier import", "from amplifier_core import")
        modules[kind] = Module(path=project(tmp_path / kind, code), config=CONFIGS.get(kind, "{}"))
    assert {kind: found.wrong for kind, found in examine(modules, tmp_path).items()} == dict.fromkeys(KINDS, ([], []))


def test_the_configuration_is_given_and_its_secrets_are_not_shown(inside: Inside, tmp_path: Path) -> None:
    raises = "    raise RuntimeError(str(config))\n"
    code = source("tool").replace(
        "async def mount(coordinator, config):\n", f"async def mount(coordinator, config):\n{raises}"
    )
    given = '{"level": "visible", "api_key": "not to be seen", "auth": {"users": ["nor this one"]}}'
    done = inside("module", "validate", project(tmp_path / "sample", code), "--json", "--config", given)
    assert done.json["failed"] == ["mount.works"]
    assert "visible" in done.out
    assert "not to be seen" not in done.out
    assert "nor this one" not in done.out


def test_a_module_is_found_as_the_loader_finds_it(tmp_path: Path) -> None:
    code = source("tool")
    folder = project(tmp_path / "project", code)
    project(tmp_path / "amplifier-module-sample", code)
    project(tmp_path / "source", "", {"src/sample/__init__.py": code})
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "alone.py").write_text(code, "utf-8")
    (tmp_path / "one" / "pyproject.toml").write_text("[project]\nname = 'more'\n", "utf-8")
    targets = {
        "package": folder / "sample",
        "src": tmp_path / "source",
        "file": tmp_path / "one" / "alone.py",
        "address": f"file://{folder}",
        "search": "sample",
    }
    found = examine({way: Module(path=target) for way, target in targets.items()}, tmp_path)
    assert {way: one.wrong for way, one in found.items()} == dict.fromkeys(targets, ([], []))
    assert {way: one.skipped for way, one in found.items() if one.skipped} == {"file": {"structure.entry_point"}}


def test_an_installed_module_is_found_by_its_name(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path / "project", source("tool"))
    info = folder / "sample-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[amplifier.modules]\nmy-sample = sample:mount\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])))
    done = check(inside, "my-sample")
    assert (done.json["failed"], done.json["warned"]) == ([], []), done.out
    skipped = {item["id"] for item in done.json["items"] if item["state"] == "skipped"}
    assert skipped == {"structure.pyproject"}


def test_a_pyproject_that_says_something_else_is_found(tmp_path: Path) -> None:
    expected = {
        "structure.pyproject": "[project",
        "structure.entry_point": "[project]\nentry-points = 3\n",
        "structure.package": '[project.entry-points."amplifier.modules"]\nsample = "other:mount"\n',
    }
    modules = {
        item: Module(path=project(tmp_path / item, source("tool"), {"pyproject.toml": text}))
        for item, text in expected.items()
    }
    assert {item: one.wrong[0] for item, one in examine(modules, tmp_path).items()} == {
        item: [item] for item in expected
    }

"""`module validate`: a module held against the checklist of its contract, whatever the module does."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from mcp_bridge.amplifier.validation.items import ITEMS, KINDS, Item, checklist
from tests.kits.cli.cli_running import Done, Inside
from tests.kits.cli.validated_faults import faults
from tests.kits.cli.validated_modules import BODIES, CONFIGS, project, source
from tests.kits.paths import ROOT

FAULTS = faults()


def check(inside: Inside, target: Path | str, kind: str = "", timeout: str = "20") -> Done:
    """The command's answer about a module, as JSON."""
    return inside("module", "validate", target, "--json", "--timeout", timeout, "--config", CONFIGS.get(kind, "{}"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_good_module_passes_without_a_warning(inside: Inside, tmp_path: Path, kind: str) -> None:
    done = check(inside, project(tmp_path / "sample", source(kind)), kind)
    assert (done.json["failed"], done.json["warned"], done.code) == ([], [], 0)
    assert (done.json["type"], done.json["ok"]) == (kind, True)
    skipped = {item["id"] for item in done.json["items"] if item["state"] == "skipped"}
    assert skipped <= {"mount.ready"}


def test_every_item_has_a_module_that_fails_it() -> None:
    assert sorted(FAULTS) == sorted(item.id for item in ITEMS)
    assert set(BODIES) == set(KINDS)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.id)
def test_an_item_fails_alone(inside: Inside, tmp_path: Path, item: Item) -> None:
    fault = FAULTS[item.id]
    done = check(inside, fault.written(tmp_path / "sample"), fault.kind, fault.timeout)
    strict = item.level == "required"
    assert done.json["failed"] == ([item.id] if strict else []), done.out
    assert done.json["warned"] == ([] if strict else [item.id]), done.out
    assert done.code == (1 if strict else 0)
    [told] = [one for one in done.json["items"] if one["id"] == item.id]
    assert told["found"]
    assert told["advice"]


@pytest.mark.parametrize("name", ["greeter.py", "manners.py"])
def test_the_examples_pass(inside: Inside, name: str) -> None:
    done = check(inside, ROOT / "config" / "amplifier" / name)
    assert (done.json["failed"], done.code) == ([], 0)


def test_a_person_gets_a_line_for_each_item_and_what_to_do(inside: Inside, tmp_path: Path) -> None:
    done = inside("module", "validate", FAULTS["tool.result"].written(tmp_path / "sample"))
    lines = done.err.splitlines()
    assert (done.code, done.out) == (1, "")
    assert [line.split()[1].rstrip(":") for line in lines[:-1] if line[0] != " "] == [
        item.id for item in checklist("tool")
    ]
    failed = next(number for number, line in enumerate(lines) if line.startswith("FAIL"))
    assert lines[failed] == "FAIL tool.result: 'sample' with {'text': 'sample'} answered with a str"
    assert lines[failed + 1] == "     Answer with ToolResult(success=..., output=..., error=...) (Tool contract)"
    assert lines[-1] == (
        f"{tmp_path / 'sample'}: tool (from __amplifier_module_type__); 1 required item failed: tool.result"
    )


def test_a_terminal_gets_a_table(inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr.__class__, "isatty", lambda stream: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    done = inside("module", "validate", FAULTS["tool.result"].written(tmp_path / "sample"))
    assert done.code == 1
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.err)
    assert re.search(r"FAIL +tool.result +Tool contract +'sample' with", shown)
    assert re.search(r"^ +Answer with ToolResult", shown, re.MULTILINE)


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
        (["./nowhere"], "no such file or folder"),
        (["file:///nowhere/at/all"], "no such file or folder"),
        (["no-such-module"], "'no-such-module' is no folder or file, and no module of that name is installed"),
        (["x" * 5000], "is no folder or file"),
        (["git+https://localhost/it@main"], "git+https://localhost/it@main is an address, and nothing is fetched here"),
        (["notes.txt"], "notes.txt is a file, and no Python file"),
        ([".", "--config", "{"], "--config: this is no JSON"),
        ([".", "--config", "[]"], "--config: found list"),
        ([".", "--timeout", "0"], "--timeout: found 0"),
        ([".", "--timeout", "nan"], "--timeout: found nan"),
        ([".", "--type", "tools"], "--type"),
        (["./" + "x" * 5000], "File name too long"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_used_is_a_usage_error(inside: Inside, tmp_path: Path, args: list[str], says: str) -> None:
    (tmp_path / "notes.txt").write_text("")
    done = inside("module", "validate", *args)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


@pytest.mark.parametrize(
    ("module", "given", "kind", "how"),
    [
        ("tool", None, "tool", "__amplifier_module_type__"),
        ("unsaid hook", None, "hook", "what it mounts"),
        ("unsaid tool", "tool", "tool", "--type"),
        ("named context", None, "context", "its name"),
    ],
)
def test_the_type_is_what_is_said_or_named_or_mounted(
    inside: Inside, tmp_path: Path, module: str, given: str | None, kind: str, how: str
) -> None:
    code = source(kind)
    if module.split(maxsplit=1)[0] in {"unsaid", "named"}:
        code = code.replace(f'__amplifier_module_type__ = "{kind}"', "")
    file = tmp_path / ("a_context.py" if "named" in module else "anything.py")
    file.write_text(code, "utf-8")
    done = inside("module", "validate", file, "--json", *(["--type", given] if given else []))
    assert (done.json["type"], done.json["type_from"], done.json["failed"]) == (kind, how, [])


def test_a_type_that_is_asked_for_is_what_it_has_to_be(inside: Inside, tmp_path: Path) -> None:
    done = inside("module", "validate", project(tmp_path / "sample", source("tool")), "--json", "--type", "hook")
    assert (done.json["type"], done.json["failed"], done.json["warned"]) == (
        "hook",
        ["mount.mounts"],
        ["structure.type"],
    )
    [told] = [item for item in done.json["items"] if item["id"] == "mount.mounts"]
    assert told["found"] == "it is to be a module of type hook, and mounted something of type tool"
    assert "--type tool" in told["advice"]


def test_a_module_that_needs_the_extra_names_it(inside: Inside, tmp_path: Path) -> None:
    needs = 'raise ModuleNotFoundError("No module named \'amplifier_core\'", name="amplifier_core.models")\nlogger = '
    done = check(inside, project(tmp_path / "sample", source("tool").replace("logger = ", needs)))
    assert done.json["failed"] == ["structure.import"]
    [told] = [item for item in done.json["items"] if item["id"] == "structure.import"]
    assert "pip install 'mcp-tool-bridge[amplifier]'" in told["found"]


@pytest.mark.skipif(find_spec("amplifier_core") is None, reason="the extra is not installed")
@pytest.mark.parametrize("kind", KINDS)
def test_a_module_with_the_names_of_amplifier_core_passes_too(inside: Inside, tmp_path: Path, kind: str) -> None:
    code = source(kind).replace("from mcp_bridge.amplifier import", "from amplifier_core import")
    done = check(inside, project(tmp_path / "sample", code), kind)
    assert (done.json["failed"], done.json["warned"]) == ([], [])


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


@pytest.mark.parametrize("way", ["name", "path", "file", "package", "src", "search", "address"])
def test_a_module_is_found_as_the_loader_finds_it(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    folder = tmp_path / ("amplifier-module-sample" if way == "search" else "project")
    if way == "src":
        project(folder, "", {"src/sample/__init__.py": source("tool")})
    else:
        project(folder, source("tool"))
    target: Path | str = {"package": folder / "sample", "search": "sample", "address": f"file://{folder}"}.get(
        way, folder
    )
    if way == "file":
        target = folder / "alone.py"
        target.write_text(source("tool"), "utf-8")
        (folder / "pyproject.toml").write_text("[project]\nname = 'more'\n", "utf-8")
    if way == "name":
        info = folder / "sample-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[amplifier.modules]\nmy-sample = sample:mount\n")
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])))
        target = "my-sample"
    done = check(inside, target)
    assert (done.json["failed"], done.json["warned"]) == ([], []), done.out
    skipped = {item["id"] for item in done.json["items"] if item["state"] == "skipped"}
    assert skipped == {"name": {"structure.pyproject"}, "file": {"structure.entry_point"}}.get(way, set())


@pytest.mark.parametrize(
    ("pyproject", "item"),
    [
        ("[project", "structure.pyproject"),
        ("[project]\nentry-points = 3\n", "structure.entry_point"),
        ('[project.entry-points."amplifier.modules"]\nsample = "other:mount"\n', "structure.package"),
    ],
)
def test_a_pyproject_that_says_something_else_is_found(
    inside: Inside, tmp_path: Path, pyproject: str, item: str
) -> None:
    done = check(inside, project(tmp_path / "sample", source("tool"), {"pyproject.toml": pyproject}))
    assert (done.json["failed"], done.code) == ([item], 1)

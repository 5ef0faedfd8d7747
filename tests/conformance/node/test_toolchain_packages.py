"""Missing packages of an npm installation are noticed, because an incomplete one would be used for ever."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kits.node.toolchain import NodeMissing, find_missing_packages, find_node


def test_an_optional_package_for_this_machine_that_is_not_there_is_named(tmp_path: Path) -> None:
    try:
        node = find_node()
    except NodeMissing as missing:
        pytest.skip(str(missing))
    packages = {
        "node_modules/here": {"optional": True, "os": ["linux", "darwin", "win32"]},
        "node_modules/elsewhere": {"optional": True, "os": ["aix"]},
        "node_modules/other-processor": {"optional": True, "os": ["linux", "darwin", "win32"], "cpu": ["mips"]},
        "node_modules/of-any-kind": {"optional": True},
    }
    (tmp_path / "package-lock.json").write_text(json.dumps({"packages": packages}))
    assert find_missing_packages(node, tmp_path) == ["node_modules/here"]
    (tmp_path / "node_modules" / "here").mkdir(parents=True)
    assert find_missing_packages(node, tmp_path) == []

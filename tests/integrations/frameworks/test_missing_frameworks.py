"""The error for a missing framework names the package to install."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load


@pytest.mark.parametrize(
    ("module", "package"), [("langchain_core.tools", "langchain-core"), ("agents", "openai-agents")]
)
async def test_the_package_of_a_missing_framework_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    name = f"missing_{module.partition('.')[0]}"
    (tmp_path / f"{name}.py").write_text(f"import {module}\n")
    (tmp_path / "bridge.yaml").write_text(f"sources: [{{type: framework, objects: ['{name}:tool']}}]\n")
    bridge = build_from_settings(load(tmp_path / "bridge.yaml", {}))
    async with bridge.run_sources():
        with pytest.raises(Exception, match=f"Run: .* -m pip install {package}$"):
            await bridge.wait_until_started()

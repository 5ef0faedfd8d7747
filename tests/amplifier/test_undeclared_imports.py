"""Modules that import a package which is not installed: the error has the command that installs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bridge.amplifier.errors import ModuleLoadError
from mcp_bridge.amplifier.module_import import import_module_at
from tests.kits.amplifier.amplifier_modules import written


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("lost_package", "-m pip install lost_package"),
        ("amplifier_foundation", "-m pip install git+https://github.com/microsoft/amplifier-foundation"),
    ],
)
def test_the_error_of_a_missing_package_has_the_command_that_installs_it(
    package: str, command: str, tmp_path: Path
) -> None:
    written(tmp_path, {f"needs_{package}.py": f"import {package}\n"})
    with pytest.raises(ModuleLoadError) as caught:
        import_module_at(tmp_path / f"needs_{package}.py", "needs")
    assert str(caught.value).endswith(command)

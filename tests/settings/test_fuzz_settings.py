"""Any settings file gives settings, or a ConfigError with the name of the file and without secrets.

FUZZ=50 runs fifty times as many examples.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings import Settings, load
from tests.kits.fuzzing import TIMES, build_text, read_corpus, use_examples
from tests.kits.settings.settings_mutations import ENVIRON, generate_files

SLOW = 60.0
"""The most seconds of CPU for a file of this size; unbounded growth takes far longer."""
PIECE = 8
"""The length of a part of a secret that may not appear either."""


def find_secrets(text: str) -> list[str]:
    """Return the parts of secrets in a text."""
    pieces = [value[at : at + PIECE] for value in ENVIRON.values() for at in range(len(value) - PIECE + 1)]
    return [piece for piece in pieces if piece in text or piece in text.replace("\\n", "\n")]


def load_and_build(path: Path) -> ConfigError | Settings:
    """Load a file and build its bridge, or return the checked error."""
    began = time.process_time()
    try:
        settings = load(path, ENVIRON)
        try:
            build_from_settings(settings)
        except ConfigError as error:
            return check_error(error, path)
        return settings
    except ConfigError as error:
        return check_error(error, path)
    finally:
        assert time.process_time() - began < SLOW


def check_error(error: ConfigError, path: Path) -> ConfigError:
    assert error.path == str(path)
    assert str(error).startswith(str(path))
    assert find_secrets(str(error).replace(str(path), "")) == []
    assert error.__cause__ is None or find_secrets(repr(error.__cause__)) == []
    return error


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one folder for all examples of a test."""
    return tmp_path_factory.mktemp("settings")


@pytest.mark.parametrize("suffix", ["yaml", "json", "toml"])
def test_any_file_gives_settings_or_one_error_with_its_path_and_no_secret(place: Path, suffix: str) -> None:
    path = place / f"mcp-bridge.{suffix}"

    @use_examples(50)
    @given(content=generate_files(suffix))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        load_and_build(path)

    check()


@pytest.mark.parametrize("finding", read_corpus("settings"))
def test_settings_from_earlier_failures_are_rejected_with_a_readable_error(
    place: Path, finding: dict[str, Any]
) -> None:
    path = place / f"mcp-bridge.{finding['suffix']}"
    path.write_text(build_text(finding["text"]))
    error = load_and_build(path)
    assert isinstance(error, ConfigError), finding["name"]
    assert finding["expect"] in str(error)


@pytest.mark.parametrize("finding", read_corpus("settings")[:: 1 if TIMES > 1 else 4])
def test_the_command_prints_the_error_in_one_line_and_exits_with_2(place: Path, finding: dict[str, Any]) -> None:
    path = place / f"mcp-bridge.{finding['suffix']}"
    path.write_text(build_text(finding["text"]))
    command = [sys.executable, "-m", "mcp_bridge", "validate", str(path)]
    result = subprocess.run(
        command, env={**os.environ, **ENVIRON}, cwd=place, capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"mcp-bridge: {path}")
    assert "Traceback" not in result.stderr
    assert find_secrets(result.stderr) == []

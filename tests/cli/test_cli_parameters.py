"""`serve` parses plain arguments without typer, with the same result."""

from __future__ import annotations

import pytest

from mcp_bridge._cli import app, serve
from mcp_bridge._cli.parameters import parse_arguments
from mcp_bridge._cli.serve_options import ServeOptions
from mcp_bridge._runtime.platform import system, windows


def parse_with_typer(words: list[str], monkeypatch: pytest.MonkeyPatch) -> ServeOptions:
    """Return the options passed to `serve` by typer."""
    calls: list[ServeOptions] = []
    monkeypatch.setattr(serve, "serve_target", lambda options, _: calls.append(options))
    app.app(["serve", *words], standalone_mode=False)
    return calls[0]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["tools.py"],
        ["./a folder/tools.py"],
        ["a=b.py"],
        ["tools.py", "--http", "8808"],
        ["--http=127.0.0.1:8808", "tools.py"],
        ["--http", "a=b", "tools.py"],
        ["--reload", "tools.py", "--no-guard"],
        ["--guard", "--no-guard", "--guard"],
        ["--log-level", "debug", "--log-level=info", "--log-file", "logs/x.log"],
        ["x.yaml", "--token-env", "TOKEN", "--http", "settings"],
    ],
)
def test_plain_arguments_are_parsed_as_typer_does(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_arguments(ServeOptions, words) == parse_with_typer(words, monkeypatch)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["-h"],
        ["--unknown"],
        ["-"],
        ["--"],
        ["--", "tools.py"],
        [""],
        ["one.py", "two.py"],
        ["--http"],
        ["--http="],
        ["--http", "--reload"],
        ["--reload=yes"],
        ["--log-level", "-1"],
        ["--no-reload"],
    ],
)
def test_anything_else_is_left_to_typer(words: list[str]) -> None:
    assert parse_arguments(ServeOptions, words) is None


@pytest.mark.parametrize(("words", "is_parsed"), [(["*.py"], False), (["~/tools.py"], False), (["tools.py"], True)])
def test_words_that_typer_expands_on_windows_are_left_to_it(
    words: list[str], is_parsed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "EXPANDED_CHARACTERS", windows.EXPANDED_CHARACTERS)
    assert (parse_arguments(ServeOptions, words) is not None) is is_parsed

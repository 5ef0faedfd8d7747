"""The examples (`>>>`) in the docstrings of public functions and classes run, and print the documented output."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import mcp_bridge


def list_public_objects() -> list[Any]:
    """Return the public modules, and their functions and classes, each of them once."""
    names = [module.name for module in pkgutil.iter_modules(mcp_bridge.__path__) if not module.name.startswith("_")]
    modules = [mcp_bridge, *(importlib.import_module(f"mcp_bridge.{name}") for name in names)]
    objects: dict[int, Any] = {}
    for module in modules:
        objects[id(module)] = module
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name)
            is_ours = getattr(value, "__module__", "").startswith("mcp_bridge")
            if is_ours and (inspect.isclass(value) or inspect.isfunction(value)):
                objects[id(value)] = value
    return list(objects.values())


def find_examples() -> list[doctest.DocTest]:
    """Return one test for each docstring with examples, including those of methods."""
    finder, module_finder = doctest.DocTestFinder(), doctest.DocTestFinder(recurse=False)
    examples: dict[tuple[str, str], doctest.DocTest] = {}
    for value in list_public_objects():
        name = value.__name__ if inspect.ismodule(value) else f"{value.__module__}.{value.__qualname__}"
        # Examples can use the names of the module that defines the class or function, as in doctest itself.
        namespace = vars(value if inspect.ismodule(value) else sys.modules[value.__module__]).copy()
        chosen_finder = module_finder if inspect.ismodule(value) else finder
        for test in chosen_finder.find(value, name, module=False, globs=namespace):
            if test.examples:
                examples[test.name, test.docstring] = test
    return list(examples.values())


@pytest.mark.parametrize("example", find_examples(), ids=lambda example: example.name)
def test_the_example_prints_what_it_shows(
    example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # Loading a module adds its folder to the path.
    monkeypatch.setattr(sys, "path", list(sys.path))
    lines: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    results = runner.run(example, out=lines.append)
    assert results.failed == 0, "".join(lines)


@pytest.mark.parametrize("name", ["mcp_bridge", "mcp_bridge.tool_use", "mcp_bridge.amplifier", "mcp_bridge.xaibo"])
def test_each_public_function_and_class_is_used_in_an_example(name: str) -> None:
    module = importlib.import_module(name)
    examples = "\n".join(line.source for example in find_examples() for line in example.examples)
    words = set(re.findall(r"\w+", examples))
    # Aliases and the version have no example.
    public = [key for key in module.__all__ if getattr(getattr(module, key), "__name__", None) == key]
    assert sorted(set(public) - words) == []

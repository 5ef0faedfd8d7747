"""Changes which names, modules and system the code in this interpreter sees, except for the standard library."""

from __future__ import annotations

import contextlib
import functools
import platform
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

NATIVE_MODULES = (
    # The C module for Linux is the only one that is installed.
    "psutil",
    # Loads kernel32.dll on Windows.
    "trio",
    # On Windows these import ctypes.windll, to write to consoles.
    "click._compat",
    "click._termui_impl",
    "rich.console",
    "typer._click._compat",
    "typer._click._termui_impl",
    # On Windows it needs pywin32.
    "mcp.os.win32.utilities",
    # Trusts the certificates of the system through its C functions.
    "truststore",
    # Forks processes for tests.
    "tests.kits.forked_commands",
)
"""Modules outside of the standard library that are executed with the names of Linux."""

Patch = Callable[[ModuleType], None]
"""Changes a module after its execution."""


class SimulatedInterpreter:
    """The names and modules of the simulated system. `activate` makes them visible to modules that are imported later.

    Args:
        system: The value of `sys.platform`.
        uname: The system, its release, its version and the machine, for `platform`.
        missing_modules: The modules that the system does not have.
        patches: Changes of modules that are imported later, by the names of the modules.
    """

    def __init__(
        self,
        system: str,
        uname: tuple[str, str, str, str],
        missing_modules: Set[str],
        patches: Mapping[str, Patch],
    ) -> None:
        self._system = system
        name, release, version, machine = uname
        self._uname = platform.uname_result(name, platform.node(), release, version, machine)
        self._patches = patches
        self._lock = threading.RLock()
        self._depth = 0
        self._native_system = sys.platform
        self._native_uname = platform.uname()
        self._native_modules = {name: sys.modules.get(name) for name in missing_modules}
        self._simulated_modules: dict[str, ModuleType | None] = dict.fromkeys(missing_modules)

    def replace(self, module: ModuleType, without: Set[str], **changes: object) -> ModuleType:
        """Let other code see a copy of `module` without some names, and with some changes."""
        copy = ModuleType(module.__name__, module.__doc__)
        for name, value in vars(module).items():
            if name not in without:
                setattr(copy, name, value)
        for name, value in changes.items():
            setattr(copy, name, value)
        if hasattr(module, "__all__"):
            copy.__all__ = [name for name in module.__all__ if name not in without] + list(changes)
        self.add(module.__name__, copy)
        return copy

    def add(self, name: str, module: ModuleType) -> None:
        """Let other code see a module."""
        self._native_modules[name] = sys.modules.get(name)
        self._simulated_modules[name] = module

    def activate(self) -> None:
        """Begin the simulation for modules that are imported from now on."""
        for name, patch in self._patches.items():
            if name in sys.modules:
                patch(sys.modules[name])
        sys.meta_path.insert(0, self)
        self._show_simulated()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Find a native or patched module. Other modules are left to the usual finders."""
        top = name.partition(".")[0]
        is_native = top in sys.stdlib_module_names or top in NATIVE_MODULES or name in NATIVE_MODULES
        if name not in self._patches and (self._depth or not is_native):
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                loader: Any = spec.loader
                # Modules in C or in the interpreter have no names to choose.
                if isinstance(loader, SourceFileLoader):
                    loader.exec_module = functools.partial(self._execute, loader.exec_module, is_native)
                return spec
        return None

    def _execute(self, execute: Callable[[ModuleType], None], is_native: bool, module: ModuleType) -> None:
        with self._native() if is_native else contextlib.nullcontext():
            execute(module)
        patch = self._patches.get(module.__name__)
        if patch is not None:
            patch(module)

    @contextlib.contextmanager
    def _native(self) -> Iterator[None]:
        """Inside the block, imports see Linux."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._show_native()
            try:
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    self._show_simulated()

    def _show_native(self) -> None:
        sys.platform = self._native_system
        platform._uname_cache = self._native_uname
        for name, module in self._native_modules.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module

    def _show_simulated(self) -> None:
        sys.platform = self._system
        platform._uname_cache = self._uname
        for name, module in self._simulated_modules.items():
            # The module may have been imported by native code.
            if sys.modules.get(name) is not None:
                self._native_modules[name] = sys.modules[name]
            sys.modules[name] = module  # type: ignore[assignment]

"""Runs a Python program in an interpreter that looks like another system: `start.py (-m MODULE | -c CODE | FILE) ...`.

The variable SIMULATED_SYSTEM names the system. A launcher (`simulated_systems`) runs this file, with the options of the
interpreter before it.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path


def main() -> None:
    """Simulate the system, and run the program with its own arguments."""
    root = str(Path(__file__).resolve().parents[3])
    if not sys.flags.safe_path:
        # Python has put the folder of this file there.
        del sys.path[0]
    sys.path.insert(0, root)
    from tests.kits.platforms import environment

    system = os.environ[environment.MARKER]
    if system == "win32":
        from tests.kits.platforms import windows

        windows.install()
    else:
        from tests.kits.platforms import macos

        macos.install()
    sys.path.remove(root)
    # A program may have a package with this name.
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    launcher = os.environ.pop("SIMULATED_LAUNCHER")
    sys._base_executable = launcher  # type: ignore[attr-defined]
    # The launcher of a virtual environment of Windows.
    sys.executable = os.environ.pop("SIMULATED_ENVIRONMENT") or launcher
    arguments = sys.argv[1:]
    if arguments[:1] == ["-m"]:
        _add_folder(os.getcwd())
        sys.argv = arguments[1:]
        # The interpreter itself runs modules with this function.
        runpy._run_module_as_main(arguments[1])  # type: ignore[attr-defined]
    elif arguments[:1] == ["-c"]:
        _add_folder("")
        sys.argv = ["-c", *arguments[2:]]
        names = {"__name__": "__main__", "__builtins__": __builtins__}
        exec(compile(arguments[1], "<string>", "exec"), names)
    else:
        _add_folder(str(Path(arguments[0]).resolve().parent))
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


def _add_folder(folder: str) -> None:
    if not sys.flags.safe_path:
        sys.path.insert(0, folder)


if __name__ == "__main__":
    main()

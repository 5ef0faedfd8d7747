"""Runs `mcp-bridge` in an interpreter that looks like Windows or macOS to the code of this package.

`simulated_systems` starts processes, and `start` changes their interpreter before it runs a module. It changes what
Python code sees: names, modules, signals, the rules for files, processes and event loops, encodings, variables and
folders. The system below is still Linux. So these things cannot be simulated:

- backslashes, drives, reserved names and `;` between the folders of PATH, because the standard library parses paths;
- file systems that ignore case, and access control lists;
- consoles, window stations and the registry;
- the C code of the standard library and of other packages, such as `_winapi`, kqueue and `psutil`;
- `cmd.exe`: a program `name.cmd` is a script of `sh`, and its arguments are not parsed again.

The standard library, and the modules in `interpreter.NATIVE_MODULES`, keep the names of Linux, because they need them.
They use the changed functions for files and processes.
"""

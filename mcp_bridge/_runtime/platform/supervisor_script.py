"""The script to supervise a worker or child process: `supervisor_script.py GRACE:STDIN:WORDS CLEANUP... COMMAND...`.

WORDS is the number of words of the command CLEANUP.

A command may begin with LANDLOCK and the order for its restrictions, which the supervisor then applies to it, or with
FILTER, if it is bubblewrap and reads a filter of system calls.

It is short and imports the supervisor, because Python stores the compiled file of a module, but compiles a script at
every start. Compiling the supervisor takes a tenth of the CPU time of its start.
"""

import sys

LANDLOCK, FILTER = "--landlock", "--filter"

if __name__ == "__main__":
    # The folders come last, so that they hide no module of Python.
    folder = __file__.rpartition("/")[0]
    sys.path += [folder, folder.rpartition("/")[0]]
    from supervisor import supervise_worker  # type: ignore[import-not-found]

    grace, stdin, count = sys.argv[1].split(":")
    end = 2 + int(count)
    cleanup, command = sys.argv[2:end], sys.argv[end:]
    prepare, clean_up = None, None
    if command[0] == LANDLOCK:
        from kernel_sandbox.restrictions import Restrictions  # type: ignore[import-not-found]

        restrictions = Restrictions(command[1])
        prepare, clean_up = restrictions.apply, restrictions.remove_folder
        command = command[2:]
    elif command[0] == FILTER:
        from kernel_sandbox.seccomp import provide_filter  # type: ignore[import-not-found]

        prepare = provide_filter
        command = command[1:]
    supervise_worker(command, float(grace), int(stdin), prepare, clean_up, cleanup)

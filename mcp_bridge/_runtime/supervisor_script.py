"""The script above each worker and child process: `python -I -S supervisor_script.py GRACE[:STDIN] COMMAND...`.

It imports the supervisor, because Python keeps the compiled file of a module. A script itself is compiled at every
start, in a tenth of the CPU time of a supervisor's start.
"""

import sys

if __name__ == "__main__":
    # The folder comes last, so that it hides no module of Python.
    sys.path.append(__file__.rpartition("/")[0])
    from supervisor import supervise_worker  # type: ignore[import-not-found]

    grace, _, stdin = sys.argv[1].partition(":")
    supervise_worker(sys.argv[2:], float(grace), int(stdin or 0))

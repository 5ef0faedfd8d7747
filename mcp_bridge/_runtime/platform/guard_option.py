"""Reads from a command line whether the server wants a guard, which ends the processes that it leaves behind."""

from __future__ import annotations

# Importing `typing` or `collections.abc` would enlarge the supervisor.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def is_guard_wanted(arguments: Sequence[str]) -> bool:
    """Whether this command gets a guard: `serve`, `worker` or `dev`, without `--no-guard`.

    The arguments are searched without the parser of options, which is not imported yet. With `--shared`, the server is
    another process.
    """
    if arguments[:1] not in (["serve"], ["worker"], ["dev"]) or "--shared" in arguments:
        return False
    # The last one of these options counts.
    options = [word for word in arguments if word in {"--guard", "--no-guard", "--help", "-h"}]
    return not options or options[-1] == "--guard"

"""Kills servers under load, and checks the audit trail for each call with a response.

python -m tests.kits.audit.killed_servers [ROUNDS] [SYNCHRONOUS]
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from mcp_bridge._policies.audit_trail.reader import open_trail
from tests.kits.audit.audit_kit import AuditedServer, read_records, run_server, write_settings

CALLS_PER_SERVER = 5000
"""Calls that are sent to each server. It is killed before it has responded to all of them."""


def kill_servers(
    folder: Path, rounds: int, *, chance: random.Random, max_responses: int = 3000, synchronous: str = "normal"
) -> tuple[int, int]:
    """Start and kill servers with one audit trail, each after at most `max_responses` responses.

    Return the numbers of responses and of records.

    Raises AssertionError if a call with a response has no record, or the chain is broken.
    """
    settings, acknowledged = write_settings(folder, synchronous=synchronous), set()
    trail = folder / "trail.sqlite3"
    for number in range(rounds):
        with run_server(settings) as server:
            acknowledged |= _kill_under_load(server, trail, number, chance.randint(1, max_responses))
    with open_trail(trail) as reader:
        report = reader.verify()
    assert report.is_intact, report
    recorded = {record["call"] for record in read_records(trail)}
    assert acknowledged - recorded == set()
    return len(acknowledged), len(recorded)


def _kill_under_load(server: AuditedServer, trail: Path, number: int, after: int) -> set[str]:
    """Kill the server after this many responses, and return the ids of all its responses."""
    server.call(f"{number}-first")
    pid = server.find_pid(trail)
    ids = [f"{number}-{call}" for call in range(CALLS_PER_SERVER)]
    sending = threading.Thread(target=server.send_calls, args=(ids,))
    sending.start()
    outputs = set()
    for response in server.read_responses():
        # Calls beyond the limits of the server have results, too.
        assert "result" in response, response
        outputs.add(response["id"])
        if len(outputs) == after:
            os.kill(pid, signal.SIGKILL)
    sending.join()
    return outputs


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    synchronous = sys.argv[2] if len(sys.argv) > 2 else "normal"
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        responses, records = kill_servers(Path(folder), rounds, chance=random.Random(), synchronous=synchronous)
    seconds = time.monotonic() - began
    print(f"{rounds} servers killed in {seconds:.0f} s: {responses} responses, {records} records, none missing")


if __name__ == "__main__":
    main()

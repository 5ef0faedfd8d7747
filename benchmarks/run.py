"""Run the comparison: `python -m benchmarks.run`, see README.md beside this file."""

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import orjson

from benchmarks import cases, measure, report
from benchmarks.measure import Load, Running
from benchmarks.process import ServerFailed


class Run:
    """One interleaved run: what was measured so far, and which cases failed."""

    def __init__(self, chosen, load, *, json_replies):
        self.results = {case: [] for case in chosen}
        self.failures = {}
        self._load, self._options = load, {"json_replies": json_replies}

    async def measure_warm(self, rounds):
        """Keep a warm server for each case of calls or lists and give each one window a round, in turn."""
        async with contextlib.AsyncExitStack() as stack:
            running = {}
            for case in self._list_cases("calls", "list"):
                async with self._record_failure(case):
                    server = await stack.enter_async_context(Running.open(case, **self._options))
                    await server.window(case, self._load)  # warms up, thrown away
                    running[case] = server
            for number in range(1, rounds + 1 if running else 1):
                progress(f"calls and lists: round {number} of {rounds}")
                for case in self._list_cases("calls", "list"):
                    async with self._record_failure(case):
                        self.results[case].append(await running[case].window(case, self._load))

    async def measure_fresh(self, rounds):
        """Start a fresh server for each case of starts or streams a round, in turn; round 0 fills the caches."""
        for number in range(rounds + 1 if self._list_cases("start", "streams") else 0):
            progress(f"starts and streams: round {number} of {rounds}")
            for case in self._list_cases("start", "streams"):
                async with self._record_failure(case):
                    sample = await measure.measure_fresh(case, **self._options)
                    if number:
                        self.results[case].append(sample)

    def _list_cases(self, *kinds):
        return [case for case in self.results if case.kind in kinds]

    @contextlib.asynccontextmanager
    async def _record_failure(self, case):
        """A case whose server fails is reported at once and left out from then on."""
        try:
            yield
        except ServerFailed as error:
            print(f"\n{case} ({case.kind}) failed: {error}\n", file=sys.stderr, flush=True)
            self.failures[case] = str(error)
            del self.results[case]


def progress(text):
    """Say on stderr where the run is."""
    print(text, file=sys.stderr, flush=True)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--calls", type=int, help="calls in a window, at least (2000)")
    parser.add_argument("--seconds", type=float, help="length of a window, at least (1.0)")
    parser.add_argument("--rounds", type=int, help="rounds (5)")
    parser.add_argument("--in-flight", type=int, default=32, help="calls open at any time (32)")
    parser.add_argument("--quick", action="store_true", help="three rounds of smaller windows")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every sample to FILE")
    parser.add_argument("--json-replies", action="store_true", help="the SDK's server answers JSON always")
    parser.add_argument(
        "--only", nargs="+", default=[], choices=cases.known_words(), metavar="WORD",
        help=f"only these cases: {', '.join(cases.known_words())}",
    )  # fmt: skip
    return parser.parse_args()


def load_of(options):
    """The load that the command line asks for."""
    calls, seconds = (300, 0.4) if options.quick else (2000, 1.0)
    return Load(calls=options.calls or calls, seconds=options.seconds or seconds, in_flight=options.in_flight)


async def compare(options):
    """Measure, print, and return whether every goal was met."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    found = report.facts()
    report.record_load(found)
    run = Run(cases.chosen(options.only), load_of(options), json_replies=options.json_replies)
    rounds = options.rounds or (3 if options.quick else 5)
    await run.measure_warm(rounds)
    await run.measure_fresh(rounds)
    report.record_load(found)
    verdict = list(report.verdicts(run.results, run.failures))
    report.print_facts(found)
    report.print_tables(run.results)
    if options.json:
        document = report.document(found, run.results, run.failures, verdict)
        options.json.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    return report.print_verdicts(verdict, run.failures)


def main():
    """Exit code 0: all goals met; 1: a goal missed or a server failed; 130: interrupted."""
    options = arguments()
    try:
        sys.exit(0 if asyncio.run(compare(options)) else 1)
    except (KeyboardInterrupt, asyncio.CancelledError):
        progress("interrupted: all servers are ended")
        sys.exit(130)


if __name__ == "__main__":
    main()

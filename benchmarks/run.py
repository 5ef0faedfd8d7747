"""Run the comparison: `python -m benchmarks.run`. README.md describes it."""

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import orjson

from benchmarks import cases, report
from benchmarks.measure import Load, RunningServer, measure_fresh
from benchmarks.process import ServerFailed


class Run:
    """One interleaved run: the samples so far, and the cases that failed."""

    def __init__(self, selected_cases, load, *, json_replies):
        self.results = {case: [] for case in selected_cases}
        self.failures = {}
        self._load, self._options = load, {"json_replies": json_replies}

    async def measure_warm(self, rounds):
        """Measure one window a round of each case of calls or lists, in turn, on servers that stay open."""
        async with contextlib.AsyncExitStack() as stack:
            servers = {}
            # Round 0 starts the servers and warms them up. Its samples are discarded.
            for number in range(rounds + 1):
                for case in self._list_cases("calls", "list", number=number, rounds=rounds):
                    sample = await self._measure_window(case, servers, stack)
                    if number and sample:
                        self.results[case].append(sample)

    async def _measure_window(self, case, servers, stack):
        """Return the sample of one window, or None. Cases with the same command share a server."""
        key = (case.make_command(**self._options), case.era)
        async with self._record_failure(case):
            if key not in servers:
                servers[key] = await stack.enter_async_context(RunningServer.open(case, **self._options))
            return await servers[key].measure_window(case, self._load)
        # Calls may still be open in the session, so the other cases get a new server.
        if key in servers:
            servers.pop(key).end()
        return None

    async def measure_fresh(self, rounds):
        """Start a fresh server for each case of starts or streams a round, in turn. Round 0 fills the file caches."""
        for number in range(rounds + 1):
            for case in self._list_cases("start", "streams", number=number, rounds=rounds):
                async with self._record_failure(case):
                    sample = await measure_fresh(case, **self._options)
                    if number:
                        self.results[case].append(sample)

    def _list_cases(self, *kinds, number, rounds):
        selected_cases = [case for case in self.results if case.kind in kinds]
        if selected_cases:
            print_progress(f"round {number} of {rounds}: {len(selected_cases)} cases of {' or '.join(kinds)}")
        return selected_cases

    @contextlib.asynccontextmanager
    async def _record_failure(self, case):
        """Report a failure at once, and remove its case from the run."""
        try:
            yield
        except ServerFailed as error:
            print(f"\n{case} ({case.kind}) failed: {error}\n", file=sys.stderr, flush=True)
            self.failures[case] = str(error)
            del self.results[case]


def print_progress(text):
    """Print a line to stderr."""
    print(text, file=sys.stderr, flush=True)


def parse_options():
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--calls", type=int, help="calls in a window, at least (300)")
    parser.add_argument("--seconds", type=float, help="length of a window, at least (1.0)")
    parser.add_argument("--rounds", type=int, help="rounds (5)")
    parser.add_argument("--quick", action="store_true", help="three rounds of smaller windows")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every sample to FILE")
    parser.add_argument("--json-replies", action="store_true", help="the SDK's server always responds with JSON")
    words = cases.list_words()
    parser.add_argument(
        "--only", nargs="+", default=[], choices=words, metavar="WORD", help=f"only these cases: {', '.join(words)}"
    )
    options = parser.parse_args()
    if not cases.select_cases(options.only):
        parser.error("--only: no case of the default run matches. Add the word everything to select from all cases.")
    return options


def make_load(options):
    """Return the load of a window."""
    calls, seconds = (100, 0.4) if options.quick else (300, 1.0)
    return Load(calls=options.calls or calls, seconds=options.seconds or seconds)


async def compare(options):
    """Measure, print, and return whether every goal was met."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    facts = report.collect_facts()
    report.record_load(facts)
    run = Run(cases.select_cases(options.only), make_load(options), json_replies=options.json_replies)
    rounds = options.rounds or (3 if options.quick else 5)
    await run.measure_warm(rounds)
    await run.measure_fresh(rounds)
    report.record_load(facts)
    verdicts = list(report.judge_goals(run.results, run.failures))
    report.print_facts(facts)
    report.print_tables(run.results)
    if options.json:
        document = report.make_document(facts, run.results, run.failures, verdicts)
        options.json.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    return report.print_verdicts(verdicts, run.failures)


def main():
    """Exit code 0: all goals met; 1: a goal missed or a server failed; 130: interrupted."""
    options = parse_options()
    try:
        sys.exit(0 if asyncio.run(compare(options)) else 1)
    except (KeyboardInterrupt, asyncio.CancelledError):
        print_progress("interrupted: all servers are ended")
        sys.exit(130)


if __name__ == "__main__":
    main()

"""Plays a protocol as node programs and as dataflow steps, and prints the rows that differ between the two forms.

    python tests/perf/forms.py scenarios [NAME ...]
    python tests/perf/forms.py random [--first 0] [--count 50] [--batch 50]
    python tests/perf/forms.py ginger [--first 0] [--count 500] [--batch 50]

- ``scenarios`` plays the runs of ``conf/scenarios`` and ``tests/mutation/hunted`` that have both forms.
- ``random`` plays random crash schedules of `delta`, with both duplicate detectors.
- ``ginger`` plays random runs of `ginger` without faults; every second batch ends while messages are in flight.

The exit code is 1 if a row differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.forms import Difference, cut, differences, numbered

from pipelines.engines.session import open_session
from pipelines.errors import FormError
from pipelines.experiment.prepared import prepare
from pipelines.scenario.load import RunConfig

_ROOT = Path(__file__).parents[2]
_FOLDERS = (_ROOT / "conf" / "scenarios", _ROOT / "tests" / "mutation" / "hunted")
_PROTOCOLS = ("delta", "forwarding", "ginger")


def scenario_runs(names: list[str]) -> Iterator[tuple[str, str, list[RunConfig]]]:
    """Yields a title, a protocol and runs for each scenario and each of its protocols that has both forms."""
    for path in (path for folder in _FOLDERS for path in sorted(folder.glob("*.yaml"))):
        if names and path.stem not in names:
            continue
        try:
            runs = list(prepare(path).runs)
        except Exception as error:
            print(f"{path.stem}: {error}", file=sys.stderr)
            continue
        for protocol in _PROTOCOLS:
            own = [run for run in runs if run.scenario.protocol.name == protocol]
            if own:
                yield path.stem, protocol, numbered(own)


def random_runs(first: int, count: int, batch: int) -> Iterator[tuple[str, str, list[RunConfig]]]:
    """Yields title, protocol and runs of batches of random crash schedules of `delta`, with each duplicate detector."""
    from oracles.delta.generator import random_run
    from support.delta.schedules import as_runs, short_schedules

    seeds = islice(short_schedules(first), count)
    while part := list(islice(seeds, batch)):
        for detector in ("identifier", "visited"):
            runs = as_runs(random_run(seed, detector) for seed in part)
            yield f"random {part[0]} to {part[-1]}, {detector}", "delta", runs


def ginger_runs(first: int, count: int, batch: int) -> Iterator[tuple[str, str, list[RunConfig]]]:
    """Yields title, protocol and runs of batches of random runs of `ginger` without faults."""
    from support.ginger.random_scenario import ended_early, random_scenario

    from pipelines.testing import run_configs

    for number, begin in enumerate(range(first, first + count, batch)):
        seeds = list(range(begin, min(begin + batch, first + count)))
        runs = run_configs([random_scenario(seed) for seed in seeds], seeds)
        yield f"ginger {seeds[0]} to {seeds[-1]}", "ginger", ended_early(runs, number // 2) if number % 2 else runs


def _told(title: str, found: list[Difference], runs: list[RunConfig], seconds: float, n_shown: int) -> None:
    differing = sorted({one.run for one in found})
    print(f"{title}: {len(runs)} runs, {len(differing)} differ {differing[:10]}, {seconds:.1f} s", flush=True)
    for one in found[:n_shown]:
        print(f"  run {one.run} {one.table}: {len(one.dataflow)} only dataflow, {len(one.program)} only program")
        for form, rows in (("dataflow", one.dataflow), ("program", one.program)):
            for row in rows[:3]:
                print(f"    {form}: {row}")


def main() -> int:
    """Plays the selected runs in both forms, and prints the differences; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["scenarios", "random", "ginger"])
    parser.add_argument("names", nargs="*")
    for name, number in (("first", 0), ("count", 20), ("batch", 40), ("shown", 12)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--alone", action="store_true", help="play each run in a separate job")
    parser.add_argument(
        "--horizon", type=int, help="number of rounds after which runs end, even with messages in flight"
    )
    asked = parser.parse_args()
    n_differing = 0
    with open_session("local") as session:
        jobs = {
            "scenarios": lambda: scenario_runs(asked.names),
            "random": lambda: random_runs(asked.first, asked.count, asked.batch),
            "ginger": lambda: ginger_runs(asked.first, asked.count, asked.batch),
        }[asked.what]()
        for title, protocol, whole in jobs:
            runs = whole if asked.horizon is None else [cut(run, asked.horizon) for run in whole]
            parts = [[replace(run, run_id=0)] for run in runs] if asked.alone else [runs]
            for place, part in enumerate(parts):
                with tempfile.TemporaryDirectory() as folder:
                    start = time.perf_counter()
                    try:
                        found = differences(protocol, part, session, Path(folder))
                    except FormError as error:  # steps support crashes and latencies only
                        print(f"{title}: {error}", file=sys.stderr)
                        continue
                    seconds = time.perf_counter() - start
                name = f"{title}, run {place}" if asked.alone else title
                _told(name, found, part, seconds, asked.shown)
                n_differing += bool(found)
    return int(n_differing > 0)


if __name__ == "__main__":
    sys.exit(main())

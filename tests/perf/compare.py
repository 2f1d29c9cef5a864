"""Compares failure-free runs of protocol delta that SimPy actors play with the same runs on the engines.

    python tests/perf/compare.py [--messages 1000 --messages 100000 ...] [--side simpy --side simpy+delta]
                                 [--side local --side spark]
                                 [--limit 1200]

The runs: δ = 1, random trees of 20 brokers, ten subscribers of three topics, five publishers; a run has about 1,000
messages (SUB, PUB and CONF). The number of runs determines the number of messages. The actors (`oracles/actors.py`)
play the runs one after another; an engine plays all runs concurrently. Each measurement is a separate process. Seconds
do not include building the overlays and workloads or starting the engine. With ``simpy``, the actors only record
deliveries and confirmations. With ``simpy+delta``, they also write every message and delivery to Delta tables. The
engines write messages, deliveries and all states to Delta tables. CPU seconds are the sum over all threads; they are
more precise than seconds if other programs use the machine. Memory is the sum of the peaks of the process and of the
processes that it starts.

If the deliveries (run, subscriber, source, number, round), the numbers of confirmations or the numbers of messages
differ between two sides, the script fails.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from oracles.actors import Call, Outcome, simulate

from pipelines.contract.run_inputs import Inputs
from pipelines.engines.session import open_session
from pipelines.experiment.build import build_inputs
from pipelines.experiment.jobs import runs_per_batch
from pipelines.rounds.execute import Experiment, execute
from pipelines.scenario.load import RunConfig
from pipelines.store.store import Store
from pipelines.testing import run_configs

SIDES = ("simpy", "simpy+delta", "local", "spark")
ACTORS = ("simpy", "simpy+delta")
"""The sides that are played by actors."""
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
MESSAGES_OF_A_RUN = 1_000
DELTA = 1
_TOPICS = {"kind": "topics", "topics": 3}
PARTS: dict[str, Any] = {
    "name": "compare",
    "protocol": {"name": "delta", "delta": DELTA},
    "overlay": {"generate": {"kind": "random_tree", "nodes": 20, "max_degree": 4}},
    "workload": {
        "subscriptions": {"generate": {**_TOPICS, "nodes": 10}},
        "publications": {"generate": {**_TOPICS, "nodes": 5, "rate": 0.25, "rounds": [45, 74]}},
    },
    "time": {"rounds": 2000},
}
_DELIVERY = ("run_id", "subscriber", "source", "source_seq", "round")


def configs(n_messages: int) -> list[RunConfig]:
    """Returns runs of one scenario with different seeds, which have about ``n_messages`` messages in total."""
    return run_configs([PARTS] * max(1, n_messages // MESSAGES_OF_A_RUN))


def measured(side: str, n_messages: int) -> dict[str, Any]:
    """Measures side ``side`` in this process."""
    runs = configs(n_messages)
    found = by_actors(runs, is_written=side == "simpy+delta") if side in ACTORS else by_engine(side, runs)
    return {**found, "peak": sum(map(peak_of, processes(os.getpid()))) / 1024}


class History:
    """Writes the messages and deliveries of runs of actors to Delta tables; a commit contains many runs."""

    _ROWS_OF_A_COMMIT = 500_000
    _MESSAGE = ("kind", "src", "dst", "sent_round", "due_round", "source", "source_seq")
    _DELIVERED = ("subscriber", "source", "source_seq", "round")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: dict[str, list[tuple[Any, ...]]] = {"message": [], "delivery": []}

    def add(self, run_id: int, outcome: Outcome) -> None:
        """Adds the messages and deliveries of a run."""
        assert outcome.messages is not None
        self._rows["message"] += [(run_id, *row) for row in outcome.messages]
        self._rows["delivery"] += [(run_id, *row) for row in outcome.deliveries]
        if len(self._rows["message"]) >= self._ROWS_OF_A_COMMIT:
            self.commit()

    def commit(self) -> None:
        """Writes the rows that were added since the previous commit."""
        for name, columns in (("message", self._MESSAGE), ("delivery", self._DELIVERED)):
            rows = self._rows[name]
            if rows:
                table = pa.table(dict(zip(("run_id", *columns), map(list, zip(*rows, strict=True)), strict=True)))
                write_deltalake(self._folder / name, table, mode="append")
            rows.clear()


def by_actors(runs: Sequence[RunConfig], *, is_written: bool) -> dict[str, Any]:
    """Plays the runs one after another, and returns the measurement; building the inputs is not measured."""
    seconds, cpu, n_messages, n_confirmed = 0.0, 0.0, 0, 0
    deliveries: list[np.ndarray[Any, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder))
        for run in runs:
            links, calls = _plain(build_inputs([run], None))
            start, begun = time.perf_counter(), time.process_time()
            outcome: Outcome = simulate(links, calls, DELTA, keeps_messages=is_written)
            if is_written:
                history.add(run.run_id, outcome)
                if run is runs[-1]:
                    history.commit()
            seconds, cpu = seconds + time.perf_counter() - start, cpu + time.process_time() - begun
            n_messages += outcome.n_messages
            n_confirmed += len(outcome.confirmed)
            rows = np.array(outcome.deliveries, dtype=np.int64).reshape(-1, 4)
            deliveries.append(np.insert(rows, 0, run.run_id, axis=1))
    return _summary(seconds, cpu, n_messages, n_confirmed, np.concatenate(deliveries))


def _plain(inputs: Inputs) -> tuple[dict[tuple[int, int], int], list[Call]]:
    link = inputs.link.to_pylist()
    calls = [
        Call(row["round"], row["node_id"], row["source_seq"], row["kind"], row["topic"], row["subscription_id"])
        for row in inputs.call.to_pylist()
    ]
    return {(row["src"], row["dst"]): row["latency_rounds"] for row in link if row["src"] < row["dst"]}, calls


def by_engine(engine: Any, runs: Sequence[RunConfig]) -> dict[str, Any]:
    """Plays ``runs`` as one experiment, in the batches that `roundtable run` selects, and returns the measurement."""
    inputs = build_inputs(runs, None)
    experiment = Experiment(runs, inputs, None, runs_per_batch(inputs.n_runs, inputs.n_state_rows, ["program"]))
    with tempfile.TemporaryDirectory() as folder, open_session(engine, is_small=True) as session:
        session.activate()
        store = Store(Path(folder), session)
        start, begun = time.perf_counter(), cpu_seconds(os.getpid())
        execute(experiment, session, store, lambda progress: None)
        seconds, cpu = time.perf_counter() - start, cpu_seconds(os.getpid()) - begun
        delivery: pa.Table = store.read("delivery").select(*_DELIVERY).toArrow()
        rows = np.stack([delivery[name].to_numpy() for name in _DELIVERY], axis=1)
        confirmed = (store.read(name).where("confirmed_round is not null") for name in ("subscription", "publication"))
        n_confirmed = sum(frame.count() for frame in confirmed)
        return _summary(seconds, cpu, store.read("message").count(), n_confirmed, rows)


def _summary(
    seconds: float, cpu: float, n_messages: int, n_confirmed: int, deliveries: np.ndarray[Any, Any]
) -> dict[str, Any]:  # fmt: skip
    ordered = np.ascontiguousarray(deliveries[np.lexsort(deliveries.T[::-1])].astype("<i8"))
    told: dict[str, Any] = {"messages": n_messages, "confirmed": n_confirmed, "deliveries": len(ordered)}
    told["hash"] = hashlib.sha256(ordered.tobytes()).hexdigest()[:16]
    return {"seconds": seconds, "cpu": cpu, "same": told}


def processes(root: int) -> Iterator[Path]:
    """Yields the folders in /proc of a process and of all its descendants."""
    yield Path(f"/proc/{root}")
    for children in Path(f"/proc/{root}/task").glob("*/children"):
        for child in children.read_text("ascii").split():
            yield from processes(int(child))


def peak_of(process: Path) -> int:
    """Returns the peak memory of a process so far, in KiB."""
    lines = (process / "status").read_text("ascii", "replace").splitlines()
    # An ended process has no line VmHWM.
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def cpu_seconds(process: int) -> float:
    """Returns the CPU seconds, so far, of all threads of a process and of its descendants."""
    return sum(map(cpu_of, processes(process)))


def cpu_of(process: Path) -> float:
    """Returns the CPU seconds, so far, of all threads of a process; descendants are not included."""
    fields = (process / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def in_a_process(side: str, n_messages: int, limit: float) -> dict[str, Any] | None:
    """Measures ``side`` in a separate process; returns None if the measurement takes longer than ``limit`` seconds."""
    command = [sys.executable, __file__, "--one", side, "--messages", str(n_messages)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None
    if process.returncode:
        sys.exit(f"{side} with {n_messages:,} messages failed")
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def compared(n_messages: int, sides: Sequence[str], limit: float) -> dict[str, dict[str, Any]]:
    """Measures all sides with about ``n_messages`` messages, and checks that their deliveries are equal."""
    found = {}
    for side in sides:
        result = in_a_process(side, n_messages, limit)
        if result is None:
            print(f"{side} is left out at {n_messages:,} messages: more than {limit:.0f} s", file=sys.stderr)
            continue
        found[side] = result
        print(f"{side} {n_messages:,}: {result}", file=sys.stderr)
    if len({tuple(result["same"].items()) for result in found.values()}) > 1:
        sys.exit(f"the sides differ: { {side: result['same'] for side, result in found.items()} }")
    return found


def rate(result: dict[str, Any]) -> float:
    """Returns messages per second."""
    return float(result["same"]["messages"] / result["seconds"])


def compared_pairs(sides: Sequence[str]) -> list[tuple[str, str]]:
    """Returns all pairs of an engine and a side that is played by actors."""
    return [(side, actors) for actors in ACTORS if actors in sides for side in sides if side not in ACTORS]


def table(rows: dict[int, dict[str, dict[str, Any]]], sides: Sequence[str]) -> Iterator[str]:
    """Yields the lines of the Markdown table."""
    pairs = compared_pairs(sides)
    heads = [*(f"{side} msg/s" for side in sides), *(f"{side} / {actors}" for side, actors in pairs),
             *(f"{side} CPU s" for side in sides), *(f"{side} MiB" for side in sides)]  # fmt: skip
    yield f"| messages | deliveries | {' | '.join(heads)} |"
    yield "|" + "---:|" * (len(heads) + 2)
    for found in (found for found in rows.values() if found):
        same = next(iter(found.values()))["same"]
        cells = [f"{rate(found[side]):,.0f}" if side in found else "left out" for side in sides]
        for side, actors in pairs:
            both = side in found and actors in found
            cells.append(f"{rate(found[side]) / rate(found[actors]):.2g}" if both else "-")
        cells += [f"{found[side]['cpu']:,.1f}" if side in found else "-" for side in sides]
        cells += [f"{found[side]['peak']:,.0f}" if side in found else "-" for side in sides]
        yield f"| {same['messages']:,} | {same['deliveries']:,} | {' | '.join(cells)} |"


def crossing(rows: dict[int, dict[str, dict[str, Any]]], side: str, actors: str) -> str:
    """Returns a sentence with the number of messages from which ``side`` is as fast as ``actors``.

    Between two measured sizes, the ratio of the rates is interpolated linearly on logarithmic scales.
    """
    points = [
        (math.log(found[side]["same"]["messages"]), math.log(rate(found[side]) / rate(found[actors])))
        for found in rows.values()
        if side in found and actors in found
    ]
    for (x, y), (after, then) in itertools.pairwise(points):
        if y < 0.0 <= then:
            return f"{side} passes {actors} at about {math.exp(x - y * (after - x) / (then - y)):,.0f} messages."
    if not points:
        return f"{side} and {actors} were not measured at the same size."
    ahead = "ahead of" if points[0][1] >= 0.0 else "behind"
    return f"{side} is {ahead} {actors} at all sizes."


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--messages", type=int, action="append", help="approximate number of messages (default: 1,000 to 10,000,000)"
    )
    parser.add_argument("--side", action="append", choices=SIDES)
    parser.add_argument("--limit", type=float, default=1200.0, help="maximum seconds of a measurement")
    parser.add_argument("--one", choices=SIDES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.one, given.messages[0])))
        return
    sides = given.side or list(SIDES)
    rows = {size: compared(size, sides, given.limit) for size in given.messages or SIZES}
    print("\n".join(table(rows, sides)))
    for side, actors in compared_pairs(sides):
        print(f"\n{crossing(rows, side, actors)}")


if __name__ == "__main__":
    main()

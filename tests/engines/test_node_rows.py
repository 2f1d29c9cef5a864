"""Node programs leave the same rows whoever plays them: round by round, several rounds a job, without an engine."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from pyspark.cloudpickle import register_pickle_by_value, unregister_pickle_by_value
from support import flooding
from support.engines import spread
from support.replicas import Tables, broken_off, by_run, differing

from pipelines.engines.session import Session
from pipelines.engines.workers import _pools as POOLS, in_workers, stop_workers
from pipelines.errors import NodeProgramError
from pipelines.experiment.build import build_inputs
from pipelines.protocols import PACKAGES, PROTOCOLS
from pipelines.rounds import blocks
from pipelines.rounds.blocks import Blocks
from pipelines.rounds.commit import History
from pipelines.rounds.execute import Experiment, execute
from pipelines.scenario.load import RunConfig
from pipelines.store.store import Store
from pipelines.testing import rows, run_all, run_configs, scenario
from udfs.batches import Mapped
from udfs.nodes import processes
from udfs.nodes.local import LocalNetwork
from udfs.nodes.world import World

N_NODES = 9
N_RUNS = 3
HORIZON = 60
LOSSY = (
    {"kind": "loss", "rate": 0.1, "kinds": ["PUB"]},
    {"kind": "delay", "rounds": [0, 5], "rate": 0.3, "round": 20, "until": 50},
    {"kind": "delay", "rounds": [1, 6], "rate": 0.3, "kinds": ["PUB"], "reorder": True},
    {"kind": "duplicate", "rate": 0.3, "kinds": ["PUB"], "after": [0, 4]},
    {"kind": "partition", "groups": [["N1", "N2"], ["N3"]], "round": 30, "until": 45},
    {"kind": "loss", "rate": 0.9, "links": [["N1", "N0"]], "round": 10, "until": 50},
)


@pytest.fixture(autouse=True, scope="module")
def _known() -> Iterator[None]:
    """The program of the tests is a protocol; workers of Spark get it with each job."""
    register_pickle_by_value(flooding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PROTOCOLS, "flood", flooding.PROTOCOL)
        patch.setitem(PACKAGES, "flood", "roundtable-pubsub")
        yield
    unregister_pickle_by_value(flooding)


def eventful(seed: int, *, is_lossy: bool) -> dict[str, Any]:
    """Returns a run with crashes and recoveries, a pause, timers, and faults of links if they are wanted."""
    draw = random.Random(seed)
    names = [f"N{node}" for node in range(N_NODES)]
    links = [[names[node], names[draw.randrange(node)], draw.randint(1, 4)] for node in range(1, N_NODES)]
    down = draw.sample(names, 4)
    faults: list[dict[str, Any]] = [
        {"kind": "crash", "node": name, "round": (at := draw.randrange(3, 35)), "until": at + draw.randint(1, 20)}
        for name in down[:3]
    ]
    faults.append({"kind": "crash", "node": down[3], "round": 40})
    paused = next(name for name in names if name not in down)
    faults.append({"kind": "pause", "node": paused, "round": 20, "until": 35})
    publications = [{"at": draw.choice(names), "round": draw.randrange(2, 45), "topic": "t"} for _ in range(12)]
    return scenario(
        protocol={"name": "forwarding"},
        overlay={"links": links},
        workload={"subscriptions": [{"at": "N1", "topic": "t"}], "publications": publications},
        faults=[*faults, *(LOSSY if is_lossy else ())],
        time={"rounds": HORIZON},
    )


def runs(*, lossy: Sequence[bool] = (False, True), fails_in_round: int | None = None) -> list[RunConfig]:
    """Returns `N_RUNS` runs of the program of the tests for each item of ``lossy``.

    Args:
        lossy: Whether links lose, delay and duplicate messages.
        fails_in_round: A handler fails in this round; None for no failure.
    """
    found = run_configs([eventful(seed, is_lossy=is_lossy) for is_lossy in lossy for seed in range(N_RUNS)])
    settings = flooding.FloodingSettings(fails_in_round=fails_in_round)
    return [
        RunConfig(run.run_id, run.seed, run.scenario.model_copy(update={"protocol": settings}), {}) for run in found
    ]


@pytest.fixture(scope="module")
def wanted(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Tables]:
    """The rows of `runs`, played round by round."""
    return by_run(run_all(runs(), sail, tmp_path_factory.mktemp("one"), commit_every=20, rounds_per_job=1))


def compare(store: Store, wanted: dict[int, Tables], way: str = "") -> None:
    """Checks that a store has the wanted rows of each run."""
    found = by_run(store)
    assert {run: list(differing(wanted[run], found[run])) for run in wanted} == {run: [] for run in wanted}, way


def test_several_rounds_a_job_leave_the_same_rows(sail: Session, tmp_path: Path, wanted: dict[int, Tables]) -> None:
    of = runs()
    ways = {
        "up to a commit": run_all(of, sail, tmp_path / "many", commit_every=20),
        "seven": run_all(of, sail, tmp_path / "seven", commit_every=21, rounds_per_job=7),
        "resumed": broken_off(of, sail, tmp_path / "resumed", 3, 8, 4, None),
        "resumed round by round": broken_off(of, sail, tmp_path / "single", 3, 12, 4, 1),
        "resumed in jobs": broken_off(of, sail, tmp_path / "jobs", 30, 8, 1, None),
    }
    for way, store in ways.items():
        compare(store, wanted, way)
    fates = {row[6] for of_run in wanted.values() for row in of_run["message"]}
    assert {"delivered", "lost_crash", "duplicate", "lost_link"} <= fates
    for table in ("state_lost", "state_dropped", "state_heard", "state_recent", "state_watch", "node_status"):
        assert any(table in of_run for of_run in wanted.values()), table


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has two processes play the runs, few as they are."""
    monkeypatch.setattr(blocks, "MANY_RUNS", 1)
    monkeypatch.setattr("pipelines.rounds.blocks.n_workers_of", lambda _: 2)


def test_processes_of_their_own_leave_the_same_rows(
    sail: Session, tmp_path: Path, wanted: dict[int, Tables], workers: None
) -> None:
    compare(run_all(runs(), sail, tmp_path, commit_every=20), wanted)


def _batches() -> list[pa.RecordBatch]:
    return pa.table({"run_id": range(43)}).to_batches(5)


def _marking(
    deadly_run: int | None = None, killed: Path | None = None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns a function that adds its process to each row; the first process of ``deadly_run`` ends there."""

    def mark(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if killed is not None and not killed.exists() and deadly_run in batch.column("run_id").to_pylist():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch.append_column("process", pa.array([os.getpid()] * batch.num_rows))

    return mark


def test_rows_keep_their_order_on_any_number_of_workers() -> None:
    function = _marking()
    assert in_workers(lambda: function, 1) is function
    found = pa.Table.from_batches(in_workers(lambda: function, 2)(_batches())).to_pydict()
    assert found["run_id"] == [*range(43)]
    assert os.getpid() not in found["process"]


def test_a_process_that_dies_costs_no_row(tmp_path: Path) -> None:
    deadly, function = _marking(5, tmp_path / "killed"), _marking()
    found = pa.Table.from_batches(in_workers(lambda: deadly, 2)(_batches())).to_pydict()
    again = pa.Table.from_batches(in_workers(lambda: function, 2)(_batches())).to_pydict()
    assert (tmp_path / "killed").exists()
    for rows_of_job in (found, again):
        assert rows_of_job["run_id"] == [*range(43)]
        assert os.getpid() not in rows_of_job["process"]


def _endless(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while True:
        time.sleep(0.1)


def test_processes_that_nobody_waits_for_any_more_end_at_once() -> None:
    alone, *_ = _batches()
    function = in_workers(lambda: _endless, 2)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(list, function([alone]))
        time.sleep(1)
        assert not waiting.done()
        stop_workers()
        with pytest.raises(RuntimeError, match="shutdown"):
            waiting.result(timeout=60)


def _slow(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(3)
    yield from batches


def test_a_run_that_ends_spares_the_processes_of_another_run() -> None:
    """The end of a run, or of a session of engine `local`, calls `stop_workers`."""
    alone, *_ = _batches()
    begun, ended = Event(), {_slow: Event(), _endless: Event()}

    def played(function: Mapped) -> list[pa.RecordBatch]:
        with processes.until(ended[function]):
            begun.set()
            return [*in_workers(lambda: function, 2)([alone])]

    with ThreadPoolExecutor(2) as threads:
        going_on = threads.submit(played, _slow)
        assert begun.wait(60)
        interrupted = threads.submit(played, _endless)
        time.sleep(1)
        ended[_endless].set()
        stop_workers()
        with pytest.raises(processes.Interrupted):
            interrupted.result(timeout=60)
        assert going_on.result(timeout=60) == [alone]
    ended[_slow].set()
    stop_workers()
    assert not POOLS


def test_nodes_stop_before_their_next_round_when_they_are_wanted_no_more() -> None:
    network = LocalNetwork(flooding.Flooding, links={(0, 1): 1, (1, 0): 1}, settings={"seed": 0, **flooding.SETTINGS})
    network.call(0, "publish", 2)
    ended = Event()
    ended.set()
    with processes.until(ended), pytest.raises(processes.Interrupted):
        network.play(5)
    assert network.rows.handled == []
    network.play(5)
    assert network.rows.handled


def test_a_block_that_is_played_ahead_ends_with_the_program(
    sail: Session, tmp_path: Path, wanted: dict[int, Tables], workers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed stays, and the next run in the same program plays again."""
    commit, played, ended, n_blocks = History.commit, Blocks._play_runs, Event(), count(1)

    def interrupted(history: History, *given: Any, **named: Any) -> None:
        commit(history, *given, **named)
        raise KeyboardInterrupt

    def endless(rounds: Blocks, *given: Any) -> pa.Table:
        if next(n_blocks) == 1:
            return played(rounds, *given)
        with processes.until(rounds._ended):
            while not ended.is_set():
                try:
                    processes.check()
                except processes.Interrupted:
                    ended.set()
                time.sleep(0.01)
        raise processes.Interrupted

    of = runs()
    with monkeypatch.context() as patch:
        patch.setattr(History, "commit", interrupted)
        patch.setattr(Blocks, "_play_runs", endless)
        with pytest.raises(KeyboardInterrupt):
            run_all(of, sail, tmp_path / "broken", commit_every=20)
    assert ended.wait(60)
    assert not POOLS
    (folder,) = (tmp_path / "broken").iterdir()
    store = Store(folder, sail)
    execute(Experiment(of, build_inputs(of, None), 20), sail, store, lambda progress: None)
    compare(store, wanted)


def test_a_local_network_has_the_same_messages_and_deliveries(sail: Session, tmp_path: Path) -> None:
    of = runs(lossy=[False])
    store = run_all(of, sail, tmp_path / "store")
    for run in of:
        parts, ids = run.scenario, _ids(store, run.run_id)
        links = {(ids[a], ids[b]): latency for a, b, latency in parts.overlay.links or ()}
        network = LocalNetwork(flooding.Flooding, links=links, settings={"seed": run.seed, **flooding.SETTINGS})
        for node, number, round_, kind in sorted(_calls(store, run.run_id)):
            call = network.call(node, kind, round_)
            assert call.source_seq == number
        for fault in parts.faults:
            node = ids[fault.node]
            (network.crash if fault.kind == "crash" else network.pause)(node, fault.round, fault.until)
        network.play(HORIZON)
        told = [
            (one.message_id, one.kind, one.src, one.dst, one.sent_round, one.due_round, one.fate)
            for one in network.rows.handled
        ]
        columns = ("run_id", "message_id", "kind", "src", "dst", "sent_round", "due_round", "fate")
        kept = [row[1:] for row in rows(store, "message", *columns) if row[0] == run.run_id]
        assert sorted(told) == sorted(row for row in kept if row[-1] != "in_flight" and row[5] <= network.round)
        delivered = [(node, one.source, one.source_seq, round_) for node, round_, one in network.rows.delivered]
        columns = ("run_id", "subscriber", "source", "source_seq", "round")
        assert sorted(delivered) == sorted(r[1:] for r in rows(store, "delivery", *columns) if r[0] == run.run_id)


@pytest.mark.parametrize(
    ("way", "commit_every"), [("round by round", 50), ("blocks", 50), ("processes", 50), ("processes ahead", 6)]
)
def test_a_handler_that_fails_is_named_and_what_was_before_is_kept(
    sail: Session,
    tmp_path: Path,
    wanted: dict[int, Tables],
    way: str,
    commit_every: int,
    request: pytest.FixtureRequest,
) -> None:
    """All rounds before are committed, those of the other runs too; the mended program goes on from there.

    With few rounds between commits the block that fails is being played while the one before is committed.
    """
    rounds_per_job = 1 if way == "round by round" else None
    if "processes" in way:
        request.getfixturevalue("workers")
    fails = next(round_ for *_, round_ in sorted(_published(wanted)) if round_ > 30)
    place = rf"protocol flood, run \d, node \d, round {fails}, .*KeyError: 'planted'"
    with pytest.raises(NodeProgramError, match=place):
        run_all(runs(fails_in_round=fails), sail, tmp_path / "failed", commit_every, rounds_per_job)
    (folder,) = (tmp_path / "failed").iterdir()
    store = Store(folder, sail)
    last = max(row[0] for row in rows(store, "round_commit", "last_round"))
    assert last < fails <= _next_busy_round(wanted, last)
    of = runs()
    execute(Experiment(of, build_inputs(of, None), 50), sail, store, lambda progress: None)
    compare(store, wanted)


def test_a_start_that_fails_is_named(sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(world: World) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(flooding.Flooding, "start", start)
    with pytest.raises(NodeProgramError, match="protocol flood, run 0, start: KeyError: 'planted'"):
        run_all(runs(), sail, tmp_path)


@pytest.mark.parametrize("who", ["driver", "executors"])
@pytest.mark.parametrize("n_partitions", [1, 7])
def test_spark_leaves_the_same_rows(
    spark: Session, wanted: dict[int, Tables], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_partitions: int,
    who: str,
) -> None:  # fmt: skip
    if who == "executors":
        monkeypatch.setattr(blocks, "MANY_RUNS", 1)
    spark.activate()
    with spread(spark, n_partitions) as session:
        compare(run_all(runs(), session, tmp_path, commit_every=50), wanted)


@pytest.mark.spark
def test_many_runs_keep_their_nodes_from_block_to_block(spark: Session, sail: Session, tmp_path: Path) -> None:
    """Executors give runs back in any order; runs of one overlay would not even fail with each other's nodes."""
    of = run_configs([eventful(seed, is_lossy=False) for seed in range(blocks.MANY_RUNS)])
    alike = [replace(run, scenario=of[0].scenario) for run in of[: blocks.MANY_RUNS // 2]]
    of = [*alike, *of[len(alike) :]]
    one = by_run(run_all(of, sail, tmp_path / "local", commit_every=200))
    spark.activate()
    with spread(spark, 3) as session:
        compare(run_all(of, session, tmp_path / "spark", commit_every=20), one)


def _published(found: dict[int, Tables]) -> set[tuple[int, int, int]]:
    return {(run, row[0], row[2]) for run, of_run in found.items() for row in of_run["publication"]}


def _next_busy_round(found: dict[int, Tables], after: int) -> int:
    """Returns the first round after another one in which a message is handled in any run."""
    return min(
        row[5] for of_run in found.values() for row in of_run["message"] if row[5] > after and "lost" not in row[6]
    )


def _ids(store: Store, run: int) -> dict[str, int]:
    return {name: node for of, node, name in rows(store, "node", "run_id", "node_id", "name") if of == run}


def _calls(store: Store, run: int) -> list[tuple[int, int, int, str]]:
    subscribed = rows(store, "subscription", "run_id", "subscriber", "issued_round")
    published = rows(store, "publication", "run_id", "source", "source_seq", "issued_round")
    found = [(node, seq, round_, "publish") for of, node, seq, round_ in published if of == run]
    return found + [(node, 1, round_, "subscribe") for of, node, round_ in subscribed if of == run]

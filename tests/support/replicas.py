"""Schedules with three concurrent crashes for each protocol. Replicas of a schedule must have equal rows."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from pipelines.engines.session import Session
from pipelines.experiment.build import build_inputs
from pipelines.rounds.execute import Experiment, execute
from pipelines.rounds.progress import Progress
from pipelines.scenario.load import RunConfig
from pipelines.store.store import Store
from pipelines.testing import scenario
from support.ginger.setups import coming_back
from support.stored import stored_rows

Tables = dict[str, list[tuple[Any, ...]]]
PROTOCOLS = ("delta", "epidemic", "forwarding", "ginger", "flooding", "gossipsub")
WITH_CYCLES = ("flooding", "gossipsub")
N_CRASHES = 3
N_NODES = 8
_NOT_OF_RUNS = ("run", "round_commit", "violation")
_SETTINGS: dict[str, dict[str, Any]] = {
    "delta": {"delta": 3, "detection_rounds": 4},
    "epidemic": {"recovery": "push_pull", "gossip_rounds": 3, "push_rounds": 9, "lost_rounds": 9, "buffer": 3},
    "forwarding": {},
    "flooding": {},
    "gossipsub": {"d": 2, "d_lo": 1, "d_hi": 3, "d_lazy": 1, "d_out": 0, "heartbeat_rounds": 8, "flood_publish": False},
}


def eventful(protocol: str, seed: int) -> dict[str, Any]:
    """Returns a scenario in which three brokers crash within a few rounds, and recover."""
    if protocol == "ginger":
        found = (coming_back(number, N_CRASHES) for number in range(1000 * seed, 1000 * seed + 1000))
        return next(case.scenario for case in found if len(case.timed.setup.parent) >= N_NODES)
    draw = random.Random(seed)
    tree = nx.random_labeled_tree(N_NODES, seed=seed)
    names = [f"N{node}" for node in tree]
    if protocol in WITH_CYCLES:
        tree.add_edges_from(draw.sample([*nx.complement(tree).edges], N_NODES))
    links = [[f"N{a}", f"N{b}", draw.randint(1, 3)] for a, b in tree.edges]
    subscriptions = [{"at": name, "topic": "t"} for name in draw.sample(names, 3)]
    subscriptions += [{"at": name, "round": 20, "topic": "t", "until": 44} for name in draw.sample(names, 2)]
    publications = [{"at": draw.choice(names), "round": draw.randrange(10, 60), "topic": "t"} for _ in range(12)]
    faults = [
        {"kind": "crash", "node": name, "round": (at := draw.randrange(18, 30)), "until": at + draw.randrange(5, 25)}
        for name in draw.sample(names, N_CRASHES)
    ]
    return scenario(
        protocol={"name": protocol, **_SETTINGS[protocol]},
        overlay={"links": links},
        workload={"subscriptions": subscriptions, "publications": publications},
        faults=faults,
        **({"time": {"rounds": 120}} if protocol == "epidemic" else {}),
    )


class Stopped(Exception):  # noqa: N818 - not an error of the program
    """Interrupts a job."""


def broken_off(
    runs: Sequence[RunConfig], session: Session, folder: Path, after: int, commit_every: int = 4,
    rounds_per_job: int | None = 1, then: int | None = 1,
) -> Store:  # fmt: skip
    """Runs an experiment, interrupts it, and resumes it.

    Args:
        runs: The runs of the experiment.
        session: The engine.
        folder: The folder of the store.
        after: The number of jobs before the interruption.
        commit_every: The number of rounds between commits.
        rounds_per_job: The number of rounds in a job before the interruption.
        then: The number of rounds in a job after the interruption.

    Returns:
        The store.
    """
    jobs = iter(range(after))
    experiment = Experiment(runs, build_inputs(runs, None), commit_every, rounds_per_job=rounds_per_job)

    def stop(progress: Progress) -> None:
        if next(jobs, None) is None:
            raise Stopped

    session.activate()
    folder.mkdir(exist_ok=True)
    with pytest.raises(Stopped):
        execute(experiment, session, Store(folder, session), stop)
    store = Store(folder, session)
    execute(replace(experiment, rounds_per_job=then), session, store, lambda progress: None)
    return store


def by_run(store: Store) -> dict[int, Tables]:
    """Maps each run to its sorted rows in all tables, without column ``run_id``."""
    found: dict[int, Tables] = defaultdict(dict)
    for name in store.tables():
        if name not in _NOT_OF_RUNS:
            table = stored_rows(store, name).to_pylist()
            for run, *row in sorted((tuple(one.values()) for one in table), key=repr):
                found[run].setdefault(name, []).append(tuple(row))
    return found


def differing(one: Tables, other: Tables) -> Iterator[str]:
    """Yields the names of the tables whose rows differ between two runs."""
    yield from (name for name in sorted({*one, *other}) if one.get(name) != other.get(name))


def parted(found: Mapping[int, Tables], first: int, count: int) -> dict[int, list[str]]:
    """Maps each replica that differs from the first replica to the names of the tables that differ."""
    told = {run: list(differing(found[first], found[run])) for run in range(first, first + count)}
    return {run: names for run, names in told.items() if names}

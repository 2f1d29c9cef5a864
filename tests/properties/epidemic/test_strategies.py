"""What the recovery strategies of protocol ``epidemic`` are good for, over many runs of one job with paired seeds.

All draws are hashes of the seeds, so the numbers are the same every time.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import networkx as nx
import pytest

from pipelines.audits.run import audit_store
from pipelines.engines.session import Session
from pipelines.protocols import protocol_named
from pipelines.scenario.load import RunConfig
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import rows, run_all, run_configs, scenario

SEEDS = range(4)
RATES = (0.01, 0.05, 0.1, 0.2)
STRATEGIES = ("none", "push", "subscriber_pull", "publisher_pull", "combined_pull", "push_pull")
PULLS = ("subscriber_pull", "publisher_pull", "combined_pull")
TREE = {"generate": {"kind": "random_tree", "nodes": 12, "max_degree": 4}}
NAMES = [f"N{n}" for n in range(1, 13)]
Key = tuple[Any, ...]


def _scenario(rate: float, workload: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    timing = {"gossip_rounds": 4, "push_rounds": 24, "lost_rounds": 24}
    faults = [{"kind": "loss", "rate": rate, "kinds": ["EVENT"]}] if rate else []
    return scenario(
        protocol={"name": "epidemic", **timing, **settings}, overlay=TREE, workload=workload, faults=faults,
        time={"rounds": 100},
    )  # fmt: skip


def _shared() -> dict[str, Any]:
    """Four topics, each wanted by several dispatchers."""
    topics = {"kind": "topics", "topics": 4, "zipf": 0.0}
    return {
        "subscriptions": {"generate": {**topics, "nodes": "all", "per_node": 2}},
        "publications": {"generate": {**topics, "nodes": 3, "rounds": [12, 27], "rate": 1.0}},
    }


def _own(rounds: int, publishers: int) -> dict[str, Any]:
    """A pattern for each dispatcher: no two subscribers of a pattern, and of an event."""
    return {
        "subscriptions": [{"at": name, "topic": name} for name in NAMES],
        "publications": [
            {"at": at, "round": 12 + k, "topic": name}
            for at in NAMES[:publishers]
            for k in range(rounds)
            for name in NAMES
        ],
    }


def _experiment() -> dict[Key, tuple[int, dict[str, Any]]]:
    """Returns (what it is about ..., seed) → (seed, scenario)."""
    found: dict[Key, tuple[int, dict[str, Any]]] = {}
    for seed in SEEDS:
        for strategy in STRATEGIES:
            found["shared", strategy, seed] = seed, _scenario(0.1, _shared(), recovery=strategy)
        for buffer in (2, 8):
            found["buffer", buffer, seed] = seed, _scenario(0.1, _shared(), recovery="push", buffer=buffer)
        for strategy in PULLS:
            tight = {"recovery": strategy, "buffer": 16, "gossip_rounds": 8}
            found["tight", strategy, seed] = seed, _scenario(0.1, _shared(), **tight)
        found["long", 24, seed] = seed, _scenario(0.1, _shared(), recovery="push", buffer=8, gossip_rounds=24)
    for strategy in STRATEGIES[1:]:
        found["lossless", strategy, 0] = 0, _scenario(0.0, _shared(), recovery=strategy)
    twice = _scenario(0.0, _shared(), recovery="push_pull")
    found["duplicated", "push_pull", 0] = 0, {**twice, "faults": [{"kind": "duplicate", "rate": 0.3}]}
    for strategy in ("none", "push", "subscriber_pull"):
        found["own", strategy, 0] = 0, _scenario(0.1, _own(6, 2), recovery=strategy)
    for rate in RATES:
        found["baseline", rate, 7] = 7, _scenario(rate, _own(12, 4), recovery="none")
    return found


class Measured:
    """The runs by what they are about."""

    def __init__(self, store: Store, runs: dict[Key, RunConfig]) -> None:
        self.store, self.runs = store, runs
        self.reader = StoreReader(store.session, store.root)
        self.kinds: Counter[tuple[int, str]] = Counter(rows(store, "message", "run_id", "kind"))
        wanted = self.reader.table("wanted_delivery").toArrow().to_pylist()
        self.n_wanted = Counter(row["run_id"] for row in wanted)
        self.n_delivered = Counter(row["run_id"] for row in wanted if row["delivery_round"] is not None)
        self.pairs: dict[int, Counter[tuple[int, int]]] = defaultdict(Counter)
        for row in wanted:
            self.pairs[row["run_id"]][row["source"], row["subscriber"]] += 1

    def delivered(self, *about: Any) -> int:
        """Returns the deliveries of all seeds."""
        return sum(self.n_delivered[run.run_id] for key, run in self.runs.items() if key[:-1] == about)

    def wanted(self, *about: Any) -> int:
        return sum(self.n_wanted[run.run_id] for key, run in self.runs.items() if key[:-1] == about)

    def sent(self, kind: str, *about: Any) -> int:
        return sum(self.kinds[run.run_id, kind] for key, run in self.runs.items() if key[:-1] == about)


@pytest.fixture(scope="module")
def measured(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    experiment = _experiment()
    runs = run_configs([parts for _, parts in experiment.values()], [seed for seed, _ in experiment.values()])
    store = run_all(runs, sail, tmp_path_factory.mktemp("strategies"))
    return Measured(store, dict(zip(experiment, runs, strict=True)))


@pytest.mark.parametrize("rate", RATES)
def test_without_recovery_a_delivery_survives_each_of_its_hops(measured: Measured, rate: float) -> None:
    """Every event has one subscriber, so deliveries are independent: the 99.9 % interval around Σ(1-ε)^d."""
    run_id = measured.runs["baseline", rate, 7].run_id
    link = measured.reader.table("link").where(f"run_id = {run_id}").toArrow().to_pylist()
    tree = nx.Graph((row["src"], row["dst"]) for row in link)
    distance = dict(nx.all_pairs_shortest_path_length(tree))
    chances = [
        (1.0 - rate) ** distance[source][subscriber]
        for (source, subscriber), n in measured.pairs[run_id].items()
        for _ in range(n)
    ]
    assert len(chances) == 12 * 12 * 4
    spread = 3.2905 * math.sqrt(sum(chance * (1.0 - chance) for chance in chances))
    assert spread < 0.1 * len(chances)
    assert abs(measured.n_delivered[run_id] - sum(chances)) <= spread


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
def test_without_loss_nothing_is_sent_again_and_only_push_gossips(measured: Measured, strategy: str) -> None:
    about = ("lossless", strategy)
    assert measured.delivered(*about) == measured.wanted(*about)
    assert measured.sent("REQUEST", *about) == measured.sent("REPLY", *about) == 0
    assert (measured.sent("GOSSIP", *about) > 0) == (strategy in {"push", "push_pull"})


def test_copies_that_links_make_are_dropped(measured: Measured) -> None:
    about = ("duplicated", "push_pull")
    assert measured.delivered(*about) == measured.wanted(*about)
    assert measured.sent("REPLY", *about) == 0
    [run_id] = (run.run_id for key, run in measured.runs.items() if key[:-1] == about)
    fates = measured.store.read("message").where(f"run_id = {run_id} and kind = 'EVENT'").groupBy("fate").count()
    ends = {row["fate"]: row["count"] for row in fates.collect()}
    assert ends["duplicate"] > 0.15 * ends["delivered"]


def test_every_strategy_beats_the_baseline(measured: Measured) -> None:
    got = {strategy: measured.delivered("shared", strategy) for strategy in STRATEGIES}
    wanted = measured.wanted("shared", "none")
    assert got["none"] < 0.85 * wanted
    lost = wanted - got["none"]
    assert all(got[strategy] > got["none"] + 0.2 * lost for strategy in STRATEGIES[1:])
    assert got["push_pull"] >= max(got["push"], got["combined_pull"])


def test_two_pulls_beat_each_alone_where_sources_discard_events_early(measured: Measured) -> None:
    by_subscribers, by_publisher, combined = (measured.delivered("tight", strategy) for strategy in PULLS)
    assert combined > max(by_subscribers, by_publisher) > measured.delivered("shared", "none")


def test_with_one_subscriber_a_pattern_subscriber_pull_has_nowhere_to_send_and_push_works(measured: Measured) -> None:
    wanted, base = measured.wanted("own", "none"), measured.delivered("own", "none")
    assert measured.delivered("own", "subscriber_pull") == base < wanted
    assert measured.sent("GOSSIP", "own", "subscriber_pull") == 0
    assert measured.delivered("own", "push") - base > 0.5 * (wanted - base)


def test_a_larger_buffer_does_not_hurt(measured: Measured) -> None:
    about: list[Key] = [("shared", "none"), ("buffer", 2), ("buffer", 8), ("shared", "push")]
    total = [measured.delivered(*key) for key in about]
    assert total[0] < total[1] < total[2] < total[3]
    for seed in SEEDS:
        of_seed = [measured.n_delivered[measured.runs[*key, seed].run_id] for key in about]
        assert of_seed == sorted(of_seed)


def test_an_interval_too_long_for_the_buffer_costs_deliveries(measured: Measured) -> None:
    assert measured.delivered("long", 24) < measured.delivered("buffer", 8)


def test_runs_without_loss_keep_every_guarantee_and_the_others_are_beyond_the_bound(measured: Measured) -> None:
    report = audit_store(measured.reader, protocol_named("epidemic"))
    about = {run.run_id: key for key, run in measured.runs.items()}
    for run in report.runs:
        assert run.verdict == "valid"
        assert run.within_bound == (about[run.run_id][0] in {"lossless", "duplicated"})
    assert next(finding for finding in report.findings if finding.name == "exactly_once").n_excused

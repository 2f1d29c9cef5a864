"""Converts setups of the sequential program to scenarios, and deliveries in stores to its terms."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from oracles.ginger.generator import random_setup
from oracles.ginger.messages import Id, Publication
from oracles.ginger.network import Setup

from pipelines.engines.session import Session
from pipelines.protocols.ginger import OPERATION
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import rows, run_all, run_configs, scenario
from udfs.ginger.bank import Accounts

FIRST_ROUND = 200
"""The round of the first publications; all subscriptions are confirmed before this round."""
SPREAD = 20
"""The approximate number of rounds from the first publication or crash to the last."""
START_BALANCE = 150
TIMER_ROUNDS = 12
"""The shortest allowed timers for latencies of up to two rounds."""
SETTINGS = {"timer_rounds": TIMER_ROUNDS, "detection_rounds": 5, "total_degree": 8, "max_hops": 3}


@dataclass(frozen=True)
class Timed:
    """A setup of the sequential program, with latencies of links and rounds of publications."""

    setup: Setup
    latency: Mapping[frozenset[int], int]
    calls: Sequence[tuple[int, Publication]]

    @property
    def overlay(self) -> dict[str, Any]:
        """The overlay part of the scenario: the tree and its clients; the name of broker 3 is B3, of client 8 C8."""
        links = [
            [f"B{above}", f"B{b}", self.latency[frozenset((b, above))]]
            for b, above in self.setup.parent.items()
            if above is not None
        ]
        clients = [
            {"name": f"C{c}", "at": f"B{edge}", "latency": self.latency[frozenset((c, edge))]}
            for c, edge in self.setup.edge.items()
        ]
        return {"links": links, "clients": clients}

    @property
    def scenario(self) -> dict[str, Any]:
        """The setup as a scenario."""
        subscriptions = [
            {"at": f"C{c}", "topic": topic} for topic, of in self.setup.subscribers.items() for c in sorted(of)
        ]
        publications = [
            {"at": f"C{m.client}", "round": at, "topic": m.topic, "guarantee": m.guarantee, "keys": sorted(m.keys)}
            for at, m in self.calls
        ]
        return scenario(
            protocol={"name": "ginger"},
            overlay=self.overlay,
            workload={"subscriptions": subscriptions, "publications": publications},
        )


def timed_setup(seed: int) -> Timed:
    """Returns a random setup of at least two brokers, with random latencies and rounds of publications."""
    draw = random.Random(seed)
    setup = random_setup(draw, n_brokers=(2, 9))
    latency = _latencies(draw, setup, 3)
    return _timed(draw, setup, latency, draw.choice([1, 5, 30]))


def _latencies(draw: random.Random, setup: Setup, most: int) -> dict[frozenset[int], int]:
    ends = [(b, above) for b, above in setup.parent.items() if above is not None]
    return {frozenset(pair): draw.randint(1, most) for pair in [*ends, *setup.edge.items()]}


def _timed(draw: random.Random, setup: Setup, latency: Mapping[frozenset[int], int], spread: int) -> Timed:
    at = sorted(FIRST_ROUND + draw.randrange(spread) for _ in setup.publications)
    return Timed(setup, latency, list(zip(at, setup.publications, strict=True)))


@dataclass(frozen=True)
class Crashing:
    """A setup in which brokers crash.

    ``crashes``, ``until`` and ``joins`` map brokers to the rounds in which they crash, recover and join.
    ``publications`` generates the operations of a bank; None if the setup contains all publications. ``settings`` are
    the settings of the protocol that differ from `SETTINGS`.
    """

    timed: Timed
    crashes: Mapping[int, int]
    publications: Mapping[str, Any] | None = None
    buffer_size: int = 150
    collect_every: int = 0
    until: Mapping[int, int] = field(default_factory=dict)
    joins: Mapping[int, int] = field(default_factory=dict)
    settings: Mapping[str, int] = field(default_factory=dict)

    @property
    def protocol(self) -> dict[str, int]:
        """The settings of the protocol."""
        buffers = {"buffer_size": self.buffer_size, "collect_every": self.collect_every}
        return {**SETTINGS, **buffers, **self.settings}

    @property
    def scenario(self) -> dict[str, Any]:
        """The setup with its faults, as a scenario."""
        parts = self.timed.scenario
        faults = [
            {"kind": "crash", "node": f"B{b}", "round": at} | ({"until": self.until[b]} if b in self.until else {})
            for b, at in self.crashes.items()
        ]
        above = self.timed.setup.parent
        joins = [{"node": f"B{b}", "to": f"B{above[b]}", "round": at} for b, at in self.joins.items()]
        protocol = {"name": "ginger", "start_balance": START_BALANCE, **self.protocol}
        calls = {"publications": self.publications} if self.publications else {}
        workload = {**parts["workload"], **calls, **({"joins": joins} if joins else {})}
        return {**parts, "protocol": protocol, "workload": workload, "faults": faults}


def crashing(seed: int, n_crashes: int) -> Crashing:
    """Returns a random setup with up to three key items per message, one or two topics, and crashing brokers."""
    draw = random.Random(seed)
    setup = random_setup(draw, n_brokers=(3, 9))
    timed = _timed(draw, setup, _latencies(draw, setup, 2), SPREAD)
    return Crashing(timed, _crashes(draw, setup, n_crashes))


def coming_back(seed: int, n_crashes: int) -> Crashing:
    """Returns the setup of `crashing`, in which crashed brokers recover, and leaf brokers without clients join."""
    case, draw = crashing(seed, n_crashes), random.Random(seed)
    setup = case.timed.setup
    busy = {*setup.parent.values(), *setup.edge.values(), *case.crashes}
    joins = {b: FIRST_ROUND + draw.randrange(SPREAD) for b in setup.parent if b not in busy}
    until = {b: at + draw.choice([1, 2, 5, 10, 20, 40]) for b, at in case.crashes.items()}
    return replace(case, until=until, joins=joins)


def bank_with_crashes(seed: int, n_crashes: int) -> Crashing:
    """Returns a random bank of two or three accounts, on which all clients operate concurrently; brokers crash."""
    draw = random.Random(seed)
    drawn = random_setup(draw, n_brokers=(3, 9))
    setup = replace(drawn, subscribers={"bank": frozenset(drawn.edge)}, publications=[])
    timed = Timed(setup, _latencies(draw, setup, 2), [])
    operations = {"kind": "bank", "round": FIRST_ROUND, "operations": draw.randint(3, 6), "interval": SPREAD // 5}
    shares = {"accounts": draw.choice([2, 3]), "eventual": 0.1, "causal": 0.3, "most": 100}
    publications = {"generate": {**operations, **shares}}
    return Crashing(timed, _crashes(draw, setup, n_crashes), publications)


def _crashes(draw: random.Random, setup: Setup, n_crashes: int) -> dict[int, int]:
    return {b: FIRST_ROUND + draw.randrange(SPREAD) for b in draw.sample(sorted(setup.parent), n_crashes)}


def stored(cases: Sequence[Timed | Crashing], session: Session, root: Path) -> Store:
    """Plays all cases as one job; there are few commits, because some runs take thousands of rounds."""
    return run_all(run_configs([case.scenario for case in cases]), session, root, commit_every=1000)


def n_refused(store: Store) -> int:
    """Counts the bank operations that replicas refused; equal balances only test the order if the count is positive."""
    accounts: dict[tuple[int, int], Accounts] = defaultdict(lambda: Accounts(START_BALANCE))
    operations = sorted(StoreReader(store.session, store.root).sql(OPERATION).collect(), key=lambda row: row.position)
    return sum(accounts[row.run_id, row.node_id].apply(json.loads(row.content)) for row in operations)


def delivery_orders(store: Store) -> dict[tuple[int, str], list[Id]]:
    """Maps each run and client to the ids of its deliveries, in order; a client's publications are numbered from 1."""
    names = {(run, node): name for run, node, name in rows(store, "node", "run_id", "node_id", "name")}
    calls = defaultdict(list)
    for run, source, seq in rows(store, "publication", "run_id", "source", "source_seq"):
        calls[run, source].append(seq)
    number = {key: {seq: i + 1 for i, seq in enumerate(sorted(seqs))} for key, seqs in calls.items()}
    orders = defaultdict(list)
    for run, node, _, source, seq in sorted(
        rows(store, "state_delivered", "run_id", "node_id", "position", "source", "source_seq")
    ):
        publisher = int(names[run, source][1:])
        orders[run, names[run, node]].append((publisher, number[run, source][seq]))
    return orders

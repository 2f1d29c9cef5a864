"""Plays a run of protocol ginger without an engine, as a `LocalNetwork`.

An engine writes the same rows, so the results are valid for engines, too. Thousands of runs take seconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from oracles.ginger.checker import causal_violations, order_violations
from oracles.ginger.messages import Id, Publication
from oracles.ginger.network import Setup

from support.ginger.setups import FIRST_ROUND, Crashing, Timed
from udfs.ginger.bound import ScenarioRun, reasons
from udfs.ginger.program import Ginger
from udfs.ginger.records import BufferedEvent
from udfs.nodes.local import LocalNetwork
from udfs.nodes.world import Flight, NodeInfo

HORIZON = FIRST_ROUND + 20_000
"""A round before which every run must be quiescent."""


class NodeNetwork:
    """One run of a case.

    ``logs`` contains the publications and deliveries of clients. ``isolated`` contains the brokers that found no new
    parent. ``beyond`` is computed from the case, not from the outcome of the run.
    """

    def __init__(self, case: Crashing) -> None:
        """Schedules the calls and faults of the case; all subscriptions are confirmed before the first publication."""
        self.case, self.timed, self.settings = case, case.timed, case.protocol
        setup = self.timed.setup
        brokers = [NodeInfo(b, f"B{b}", "broker") for b in setup.parent]
        clients = [NodeInfo(c, f"C{c}", "client") for c in setup.edge]
        links = {(min(pair), max(pair)): latency for pair, latency in self.timed.latency.items()}
        self.network = LocalNetwork(Ginger, nodes=[*brokers, *clients], links=links, settings=self.settings)
        for number, (topic, client) in enumerate((t, c) for t, of in setup.subscribers.items() for c in sorted(of)):
            self.network.call(client, "subscribe", 0, topic=topic, subscription_id=number)
        self._published: dict[tuple[int, int], Publication] = {}
        for round_, m in self.timed.calls:
            given = {"topic": m.topic, "guarantee": m.guarantee, "keys": tuple(m.keys)}
            call = self.network.call(m.client, "publish", round_, **given)
            self._published[m.client, call.source_seq] = m
        for broker, at in case.joins.items():
            self.network.call(broker, "join", at, join_point=setup.parent[broker])
        for broker, at in case.crashes.items():
            self.network.crash(broker, at, case.until.get(broker))
        self.timers: set[tuple[int, int]] = set()
        self.last_round = 0

    def run(self) -> None:
        """Plays all rounds; records in ``timers`` pairs of a node and the round in which a timer expires."""
        while (upcoming := self.network.next_round) is not None:
            assert upcoming < HORIZON, "it never is quiescent"
            self.last_round = upcoming
            self.network.play(upcoming)
            if upcoming >= FIRST_ROUND:
                self.timers |= {(node, at) for node, of in self.network.timers.items() for at in of.values()}

    @property
    def logs(self) -> dict[int, list[tuple[str, Publication]]]:
        """The publications and deliveries of each client, in order; in a round, deliveries precede publications."""
        rows = self.network.rows
        events = [(at, 1, node, "publish", (node, seq)) for node, seq, at, what in rows.calls if what == "issued"]
        events += [(at, 0, node, "deliver", (one.source, one.source_seq)) for node, at, one in rows.delivered]
        found: dict[int, list[tuple[str, Publication]]] = {c: [] for c in self.timed.setup.edge}
        for _, _, node, what, of in sorted(events, key=lambda event: event[:2]):
            if of in self._published:
                found[node].append((what, self._published[of]))
        return found

    @property
    def publication(self) -> dict[Id, Publication]:
        """All publications of clients, by id."""
        return {m.id: m for _, m in self.timed.calls}

    @cached_property
    def sent(self) -> list[Flight]:
        """All messages, ordered by message id."""
        return sorted([*self.network.rows.handled, *self.network.in_flight], key=lambda flight: flight.message_id)

    @property
    def kinds(self) -> set[str]:
        """The kinds of all sent messages."""
        return {flight.kind for flight in self.sent}

    @property
    def nodes(self) -> dict[int, Ginger]:
        """The nodes that are up at the end."""
        return self.network.up

    @property
    def buffered(self) -> list[BufferedEvent]:
        """The events in the metadata buffers of all nodes at the end."""
        return [event for node in self.nodes.values() for event in node.metadata_buffer.values()]

    @property
    def last_delivery(self) -> int:
        """The round of the last delivery."""
        return max(at for _, at, _ in self.network.rows.delivered)

    def _with_status(self, *statuses: str) -> dict[int, str]:
        """Maps each node that had one of ``statuses`` to the last of them."""
        return {node: status for node, _, status in self.network.rows.statuses if status in statuses}

    @property
    def status(self) -> dict[int, str]:
        """The last status RECOVERING, JOINING or OPERATIONAL of each broker that recovered or joined."""
        return self._with_status("RECOVERING", "JOINING", "OPERATIONAL")

    @property
    def isolated(self) -> set[int]:
        """The brokers that found no new parent."""
        return {*self._with_status("ISOLATED")}

    @property
    def lost(self) -> set[int]:
        """The nodes that gave up lost messages."""
        return {*self._with_status("MESSAGE_LOST")}

    @property
    def beyond(self) -> list[tuple[int, str]]:
        """The rounds and reasons in which the case exceeds the bound of the protocol; empty within the bound."""
        setup, case = self.timed.setup, self.case
        links = {tuple(way): wait for pair, wait in self.timed.latency.items() for way in itertools.permutations(pair)}
        settings = {name: self.settings[name] for name in ("max_hops", "timer_rounds", "detection_rounds")}
        return list(reasons(ScenarioRun(
            root=0, brokers=frozenset(setup.parent), links=links, **settings,
            crashes=sorted((at, b) for b, at in case.crashes.items()),
            recoveries=sorted((at, b) for b, at in case.until.items()),
            subscriptions=[(c, topic, 0) for topic, of in sorted(setup.subscribers.items()) for c in sorted(of)],
            joins=[(b, setup.parent[b] or 0, self._join_round(b)) for b in case.joins],
            names={**{b: f"B{b}" for b in setup.parent}, **{c: f"C{c}" for c in setup.edge}},
        )))  # fmt: skip

    def _join_round(self, broker: int) -> int | None:
        return None if self.status.get(broker) == "OPERATIONAL" else self.case.joins[broker]

    def violations(self) -> list[str]:
        """Returns a phrase for each violation: missing deliveries, wrong orders, and errors in the final state."""
        subscribers = {topic: set(of) for topic, of in self.timed.setup.subscribers.items()}
        logs = self.logs
        ordered = [*order_violations(logs, subscribers), *causal_violations(logs)]
        alone = [f"{node} found nobody to take it in" for node in sorted(self.isolated)]
        lost = [f"{node} gave up messages" for node in sorted(self.lost)]
        return [*alone, *lost, *self._missing(logs), *self._left_over(), *self._roots(), *ordered]

    def _missing(self, logs: Mapping[int, list[tuple[str, Publication]]]) -> Iterator[str]:
        delivered = {(c, m.id) for c, log in logs.items() for what, m in log if what == "deliver"}
        for m in (m for log in logs.values() for what, m in log if what == "publish"):
            for c in logs:
                is_wanted = c in self.timed.setup.subscribers[m.topic]
                if is_wanted != ((c, m.id) in delivered):
                    yield f"{m.id} {m.guarantee} {'never ' if is_wanted else ''}delivered at {c}"

    def _left_over(self) -> Iterator[str]:
        for at, node in self.nodes.items():
            for name in ("pending", "entry_queue", "hold", "awaited", "parked"):
                for row in getattr(node, name):
                    yield f"{at} still has {name} {row}"

    def _roots(self) -> Iterator[str]:
        brokers = {at: node for at, node in self.nodes.items() if at in self.timed.setup.parent}
        roots = [
            at for at, node in brokers.items()
            if all(row.relationship != "parent" for row in node.neighbour.values())
        ]  # fmt: skip
        if len(roots) != 1:
            yield f"roots {roots}"


PARENT = {0: None, 1: 0, 2: 0, 3: 0, 4: 1, 5: 1, 6: 2, 7: 3}
EDGE = {8: 4, 9: 5, 10: 6, 11: 6, 12: 7}
"""The overlay of Figure 5.2."""
OPERATION = [
    (FIRST_ROUND, Publication(8, 1, "t", frozenset({"a"}), "causal")),
    (FIRST_ROUND, Publication(10, 1, "t", frozenset({"a", "b"}), "total")),
    (FIRST_ROUND + 2, Publication(12, 1, "t", frozenset({"b"}), "total")),
]
"""Three publications: one with two key items in total order, one before it and one after it."""


def plain(parent: Mapping[int, int | None], edge: Mapping[int, int]) -> Timed:
    """Returns a setup in which all clients subscribe to topic t and publish on it, some in total order.

    Each link has a latency of one round.
    """
    clients = sorted(edge)
    guarantees = ("total", "causal", "total")
    calls = [
        (FIRST_ROUND + round_, Publication(client, 1 + round_ // 4, "t", frozenset({"a"}), guarantees[client % 3]))
        for round_ in (0, 4, 8)
        for client in clients
    ]
    pairs = [*((b, above) for b, above in parent.items() if above is not None), *edge.items()]
    setup = Setup(parent, edge, {"t": frozenset(edge)}, [m for _, m in calls])
    return Timed(setup, {frozenset(pair): 1 for pair in pairs}, calls)


def played(case: Crashing) -> NodeNetwork:
    """Plays a case; operations of a bank are not played, only the repair of the tree."""
    network = NodeNetwork(case)
    network.run()
    return network


def operation_with_crash(broker: int, round_: int) -> NodeNetwork:
    """Plays `OPERATION` on the overlay of Figure 5.2; ``broker`` crashes ``round_`` rounds after `FIRST_ROUND`."""
    setup = Setup(PARENT, EDGE, {"t": frozenset(EDGE)}, [m for _, m in OPERATION])
    pairs = [*((b, above) for b, above in PARENT.items() if above is not None), *EDGE.items()]
    timed = Timed(setup, {frozenset(pair): 1 for pair in pairs}, OPERATION)
    return played(Crashing(timed, {broker: FIRST_ROUND + round_}))


Swept = Callable[..., Crashing]


def swept(
    parent: dict[int, int | None], edge: dict[int, int], latency: dict[tuple[int, int], int], **settings: int
) -> Swept:
    """Links that are not named take a round; buffers hold a single event, and timers are the shortest allowed."""
    timed = plain(parent, edge)
    links = {**timed.latency, **{frozenset(pair): wait for pair, wait in latency.items()}}
    timer = 6 * max(links.values())

    def case(crashes: dict[int, int], until: dict[int, int] | None = None) -> Crashing:
        given = {"timer_rounds": timer, **settings}
        return Crashing(replace(timed, latency=links), crashes, buffer_size=1, until=until or {}, settings=given)

    return case


def holding(cases: Iterable[Crashing]) -> list[NodeNetwork]:
    """Plays cases within the bound, none of which may break a guarantee."""
    networks = [played(case) for case in cases]
    assert [(one.case, one.beyond, one.violations()) for one in networks if one.beyond or one.violations()] == []
    return networks

"""The nodes of protocol ginger (`udfs.ginger`) without an engine: the rounds of one run in plain Python.

Messages, their order, and crashes are as the engine makes them, so what holds here holds there; thousands of runs take
seconds.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from oracles.ginger.checker import causal_violations, order_violations
from oracles.ginger.messages import Id, Publication
from oracles.ginger.network import Setup

from support.ginger.setups import FIRST_ROUND, Crashing, Timed
from udfs.ginger.bound import Given, reasons
from udfs.ginger.items import Item, with_message
from udfs.ginger.nodes import handled_rows
from udfs.ginger.queue import Message
from udfs.ginger.tree import rooted

_CALLS = 1 << 62
HORIZON = FIRST_ROUND + 20_000
"""No run goes on for so long."""


class NodeNetwork:
    """One run: ``logs`` has what clients published and delivered, in order; ``isolated`` who found no new parent.

    ``beyond`` has nothing to do with how it ended: it follows from the case.
    """

    def __init__(self, case: Crashing) -> None:
        """Sets the nodes as they are when all subscriptions are confirmed; brokers that join are leaves then."""
        self.case, timed = case, case.timed
        self.timed, self.crashes, self.until, self.joins = timed, case.crashes, case.until, case.joins
        self.settings = case.protocol
        self.mode = json.dumps({**self.settings, "timer": self.settings["timer_rounds"]})
        self.logs: dict[int, list[tuple[str, Publication]]] = {c: [] for c in timed.setup.edge}
        self.isolated: set[int] = set()
        self.lost: set[int] = set()
        self.status: dict[int, str] = {}
        self.sent: list[tuple[int, int, Item]] = []
        self.last_round = self.last_delivery = 0
        self.publication: dict[Id, Publication] = {m.id: m for _, m in timed.calls}
        self._history: dict[int, list[Item]] = defaultdict(list)
        self._due: dict[int, dict[int, list[Item]]] = defaultdict(lambda: defaultdict(list))
        there = (*timed.setup.parent.keys() - self.joins.keys(), *timed.setup.edge)
        self.parts = {node: [] for node in there} | self._tree(self.settings["max_hops"])
        self._lay()
        for round_, m in timed.calls:
            message = Message(m.topic, m.client, m.seq, m.guarantee, tuple(sorted(m.keys)), round_)
            self._due[round_][m.client].append(with_message("inbox", _CALLS + m.seq, message, kind="publish"))

    def _tree(self, max_hops: int) -> dict[int, list[Item]]:
        role = dict.fromkeys(self.timed.setup.parent, "broker") | dict.fromkeys(self.timed.setup.edge, "client")
        links = [
            {"src": a, "dst": b, "latency_rounds": latency, "src_role": role[a], "dst_role": role[b]}
            for pair, latency in self.timed.latency.items()
            if pair.isdisjoint(self.joins)
            for a, b in (sorted(pair), sorted(pair, reverse=True))
        ]
        run = pa.RecordBatch.from_pylist([{"run_id": 0, "root": 0, "max_hops": max_hops, "links": links}])
        found: dict[int, list[Item]] = defaultdict(list)
        for row in next(rooted([run])).to_pylist():
            kind, other, wait = row["relationship"], row["peer"], row["latency_rounds"]
            is_near = kind not in ("ancestor", "sibling")
            item = Item("neighbour", other, kind, other, latency_rounds=wait)
            seen = Item(
                "tree_view", other, kind, other, hops=row["n_up"], issued_round=row["n_down"], latency_rounds=wait
            )
            found[row["node_id"]].append(item if is_near else seen)
        return found

    def _lay(self) -> None:
        """The sub-trees of the topics."""
        setup = self.timed.setup
        for topic, subscribers in setup.subscribers.items():
            brokers = setup.members(topic)
            for b in setup.parent.keys() - self.joins.keys():
                self.parts[b].append(Item("member", 0, topic=topic, covered=sorted(brokers | subscribers)))
            for b in brokers:
                near = {n for n in (*setup.parent, setup.parent[b]) if n == setup.parent[b] or setup.parent.get(n) == b}
                around = [("broker", n) for n in near & brokers]
                around += [("client", c) for c in subscribers if setup.edge[c] == b]
                self.parts[b] += [Item("subscriber", n, kind, n, topic=topic) for kind, n in around]
        used = {(m.client, m.topic) for _, m in self.timed.calls}
        for client, topic in used | {(c, topic) for topic, of in setup.subscribers.items() for c in of}:
            usage = "subscribed" if client in setup.subscribers[topic] else "published"
            self.parts[client].append(Item("client_topic", 0, usage, topic=topic))

    @property
    def kinds(self) -> set[str | None]:
        """Kinds of all messages that were sent."""
        return {item.kind for _, _, item in self.sent}

    @property
    def buffered(self) -> list[Item]:
        """Whatever is in a buffer at the end."""
        return [event for node in self.parts for event in self._history[node]]

    def run(self) -> None:
        """Makes all rounds."""
        while rounds := [*self._due, *self._faults()]:
            assert min(rounds) < HORIZON, "it never is quiescent"
            self.round(min(rounds))

    def _faults(self) -> Iterator[int]:
        """Rounds of crashes and recoveries to come, and of joins."""
        done = self.last_round
        times = [*self.crashes.values(), *self.until.values(), *self.joins.values()]
        return (at for at in times if at > done)

    def is_down(self, node: int, at: int) -> bool:
        """Returns whether a broker is down."""
        return self.crashes.get(node, 1 << 60) <= at < self.until.get(node, 1 << 60)

    def _contacts(self, now: int) -> Iterator[tuple[int, Item]]:
        """Brokers that recover, or join, with whom they know."""
        links = self.timed.latency
        brokers = self.timed.setup.parent
        for b in (b for b, at in self.until.items() if at == now):
            known = [(links[pair], *(pair - {b})) for pair in links if b in pair]
            near = sorted((wait, other) for wait, other in known if other in brokers)
            contacts, waits = [contact for _, contact in near], [wait for wait, _ in near]
            yield b, Item("inbox", -1, "Join", covered=contacts, acked=waits, details="RECOVERING")
        for b in (b for b, at in self.joins.items() if at == now):
            to = brokers[b] or 0
            yield b, Item("inbox", -1, "Join", covered=[to], acked=[links[frozenset((b, to))]], details="JOINING")

    def round(self, now: int) -> None:
        """Makes one round."""
        self.last_round = now
        out: dict[int, list[tuple[int, Item]]] = defaultdict(list)
        for broker in sorted(b for b, at in self.crashes.items() if at == now):
            del self.parts[broker]
            self._history.pop(broker, None)
            for node, parts in self.parts.items():
                near = [part for part in parts if part.relation == "neighbour" and part.peer == broker]
                for part in near:
                    out[node].append((broker, self._news(node, part)))
        for node, contact in self._contacts(now):
            self.parts.setdefault(node, [])
            self._due[now][node].append(contact)
        for node, inbox in sorted(self._due.pop(now, {}).items()):
            if node in self.parts:
                self._handle(now, node, inbox, out[node])
        for src, messages in out.items():
            for number, (_, item) in enumerate(sorted(messages, key=lambda message: message[0])):
                self._put(now, src, number, item)

    def _news(self, node: int, neighbour: Item) -> Item:
        wait = (neighbour.latency_rounds or 0) + self.settings["detection_rounds"]
        return Item("out", 0, "NeighborDown", node, latency_rounds=wait, details=str(neighbour.peer))

    def _handle(self, now: int, node: int, inbox: list[Item], out: list[tuple[int, Item]]) -> None:
        state = [Item("mode", 0, details=self.mode), *self.parts[node], *self._history[node]]
        parts = [part for part in self.parts[node] if part.relation in ("client_topic", "member")]
        items = sorted([*state, *inbox], key=lambda item: (item.relation, item.position))
        for row in handled_rows(node, now, items):
            match row.relation:
                case "out":
                    out.append((row.position, row))
                case "delivered":
                    self._log(node, "deliver", row)
                    self.last_delivery = now
                case "history":
                    self._remember(node, row)
                    if row.kind == "published":
                        self._log(node, "publish", row)
                case "connected":
                    if self.is_down(row.peer or 0, now):
                        out.append((row.peer or 0, self._news(node, row)))
                case "status" if row.kind in ("RECOVERING", "JOINING", "OPERATIONAL"):
                    self.status[node] = row.kind
                case "status":
                    (self.isolated if row.kind == "ISOLATED" else self.lost).add(node)
                case _:
                    parts.append(row)
        self.parts[node] = parts

    def _remember(self, node: int, row: Item) -> None:
        """The buffer, without what has left it."""
        history = self._history[node]
        if row.kind in ("left", "collected"):
            is_own = row.kind == "collected"
            old = [e for e in history if e.topic == row.topic and e.position <= row.position]
            gone = [event for event in old if (event.kind == "published") == is_own]
            self._history[node] = [event for event in history if event not in gone]
        else:
            history.append(row)

    def _log(self, client: int, what: str, row: Item) -> None:
        self.logs[client].append((what, self.publication[row.message.id]))

    def _put(self, now: int, src: int, number: int, item: Item) -> None:
        dst = item.peer
        assert dst is not None
        wait = item.latency_rounds if item.latency_rounds is not None else self.timed.latency[frozenset((src, dst))]
        self.sent.append((now, src, item))
        if not self.is_down(dst, now + wait):
            position = (now << 40) + (src << 20) + number
            self._due[now + wait][dst].append(
                item._replace(relation="inbox", position=position, peer=src, latency_rounds=wait)
            )

    @property
    def beyond(self) -> list[tuple[int, str]]:
        """What is too much for the protocol: rounds, and reasons."""
        setup = self.timed.setup
        links = {tuple(way): wait for pair, wait in self.timed.latency.items() for way in itertools.permutations(pair)}
        settings = {name: self.settings[name] for name in ("max_hops", "timer_rounds", "detection_rounds")}
        return list(reasons(Given(
            root=0, brokers=frozenset(setup.parent), links=links, **settings,
            crashes=sorted((at, b) for b, at in self.crashes.items()),
            recoveries=sorted((at, b) for b, at in self.until.items()),
            subscriptions=[(c, topic, 0) for topic, of in sorted(setup.subscribers.items()) for c in sorted(of)],
            joins=[(b, setup.parent[b] or 0, self._join_round(b)) for b in self.joins],
            names={**{b: f"B{b}" for b in setup.parent}, **{c: f"C{c}" for c in setup.edge}},
        )))  # fmt: skip

    def _join_round(self, broker: int) -> int | None:
        return None if self.status.get(broker) == "OPERATIONAL" else self.joins[broker]

    def violations(self) -> list[str]:
        """Returns what is wrong at the end."""
        subscribers = {topic: set(of) for topic, of in self.timed.setup.subscribers.items()}
        ordered = [*order_violations(self.logs, subscribers), *causal_violations(self.logs)]
        alone = [f"{node} found nobody to take it in" for node in sorted(self.isolated)]
        lost = [f"{node} gave up messages" for node in sorted(self.lost)]
        return [*alone, *lost, *self._missing(), *self._left_over(), *self._roots(), *ordered]

    def _missing(self) -> Iterator[str]:
        delivered = {(c, m.id) for c, log in self.logs.items() for what, m in log if what == "deliver"}
        for m in (m for log in self.logs.values() for what, m in log if what == "publish"):
            for c in self.logs:
                is_wanted = c in self.timed.setup.subscribers[m.topic]
                if is_wanted != ((c, m.id) in delivered):
                    yield f"{m.id} {m.guarantee} {'never ' if is_wanted else ''}delivered at {c}"

    def _left_over(self) -> Iterator[str]:
        for node, parts in self.parts.items():
            for part in parts:
                if part.relation in ("pending", "entry_queue", "hold", "await", "parked"):
                    yield f"{node} still has {part.relation} of {part.source} {part.source_seq} {part.peer}"

    def _roots(self) -> Iterator[str]:
        parent: dict[int, Any] = {b: None for b in self.timed.setup.parent if b in self.parts}
        for b in parent:
            up = [p.peer for p in self.parts[b] if p.relation == "neighbour" and p.kind == "parent"]
            parent[b] = up[0] if up else None
        roots = [b for b, above in parent.items() if above is None]
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
"""An operation on two key items, a message before it and one after it."""


def plain(parent: Mapping[int, int | None], edge: Mapping[int, int]) -> Timed:
    """All clients publish on topic t, two in total order, and subscribe to it; every link takes a round."""
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
    """Plays a case; of a bank only what mends the tree."""
    network = NodeNetwork(case)
    network.run()
    return network


def operation_with_crash(broker: int, round_: int) -> NodeNetwork:
    """Plays the operation on the overlay of Figure 5.2 with a broker that crashes in a round of it."""
    setup = Setup(PARENT, EDGE, {"t": frozenset(EDGE)}, [m for _, m in OPERATION])
    pairs = [*((b, above) for b, above in PARENT.items() if above is not None), *EDGE.items()]
    timed = Timed(setup, {frozenset(pair): 1 for pair in pairs}, OPERATION)
    return played(Crashing(timed, {broker: FIRST_ROUND + round_}))

"""What the history of a run says that bears on a publication: plain rows, read once for all questions of a store."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import networkx as nx

from pipelines.execute import protocol_module
from pipelines.query import StoreReader

NEVER = 1 << 62
"""A round after all others."""
_LOSING = ("break", "partition", "burst", "loss")
_END, _LINKED, _UNLINKED = "_end", "link", "unlink"

_RUN = """
select r.run_id, t.confirms
from run r
join protocol t on t.name = r.protocol
where r.run_id in ({runs})
"""
_MESSAGE = """
select run_id, message_id, kind, src, dst, sent_round, due_round, fate, source, source_seq, body
from sent_message
where run_id in ({runs}) and (
  (source in ({sources}) and source_seq in ({seqs}))
  or (source in ({subscribers}) and contains(body, '"subscription_id"'))
  or (source is null and (src = dst or fate <> 'delivered'))
)
"""
_TABLES = {
    "run": _RUN,
    "message": _MESSAGE,
    "link_fault": "select * from fault_event where run_id in ({runs}) and node_id is null",
    "node": "select run_id, node_id, name from node where run_id in ({runs})",
    "link": "select run_id, src, dst, latency_rounds from link where run_id in ({runs})",
    "publication": "select * from publication where run_id in ({runs}) and source in ({sources})",
    "delivery": "select * from delivery where run_id in ({runs}) and source in ({sources}) and source_seq in ({seqs})",
    "node_recovery": "select * from node_recovery where run_id in ({runs}) order by run_id, node_id, crash_round",
    "node_status": "select * from node_status where run_id in ({runs}) order by run_id, node_id, round, status desc",
    "subscription": "select * from subscription where run_id in ({runs}) and subscriber in ({subscribers})",
    "matching": "select * from matching where run_id in ({runs}) and source in ({sources}) and source_seq in ({seqs})",
    "receiver": "select * from receiver where run_id in ({runs}) and source in ({sources}) and source_seq in ({seqs})",
}


@dataclass(frozen=True)
class Message:
    """A row of table ``message``; ``body`` is read."""

    message_id: int
    kind: str
    src: int
    dst: int
    sent: int
    due: int
    fate: str
    body: Mapping[str, Any]

    @property
    def at(self) -> tuple[int, int]:
        """Where it stands among what is handled in the run."""
        return self.due, self.message_id


@dataclass(frozen=True)
class Publication:
    """A row of table ``publication``."""

    source: int
    seq: int
    round: int
    topic: str | None
    content: str | None
    confirmed_round: int | None


@dataclass(frozen=True)
class Subscription:
    """A row of table ``subscription``."""

    subscription_id: int
    predicate: str | None
    issued_round: int
    confirmed_round: int | None
    unsubscribed_round: int | None


@dataclass(frozen=True)
class Down:
    """A time for which a node is down.

    Attributes:
        node: The node.
        round: Round of the crash.
        until: Round in which it comes back; None: never, as far as the history goes.
        restored: Round from which the protocol says that the node is as it was before; None where it says nothing.
        statuses: What the protocol says of the node from its return until then, or to its next crash: rounds, statuses.
    """

    node: int
    round: int
    until: int | None
    restored: int | None
    statuses: tuple[tuple[int, str], ...]

    def covers(self, round_: int) -> bool:
        """Tells whether the node is down in a round."""
        return self.round <= round_ < (NEVER if self.until is None else self.until)

    def is_felt(self, first: int, last: int) -> bool:
        """Tells whether the node is down in one of some rounds, or recovers then, as far as the protocol says."""
        up = self.until if self.restored is None and not self.statuses else self.restored
        return self.round <= last and first < (NEVER if up is None else up)

    def is_blank(self, round_: int) -> bool:
        """Tells whether the node is back in a round, and the protocol does not say that it is as it was before."""
        until, restored = (NEVER if end is None else end for end in (self.until, self.restored))
        return until <= round_ < restored


@dataclass(frozen=True)
class LinkFault:
    """A time for which something goes wrong on links, for the messages that are sent then.

    Attributes:
        kind: As in table ``fault_event``.
        src: Whose messages it concerns; None: anybody's.
        dst: To whom; None: to anybody.
        round: The first round of it.
        until: The round in which it is over; None: never, as far as the history goes.
    """

    kind: str
    src: int | None
    dst: int | None
    round: int
    until: int | None

    def is_at(self, round_: int) -> bool:
        """Tells whether a round belongs to it."""
        return self.round <= round_ < (NEVER if self.until is None else self.until)

    def concerns(self, message: Message) -> bool:
        """Tells whether a message may have met it."""
        is_there = self.src in (None, message.src) and self.dst in (None, message.dst)
        return is_there and self.is_at(message.sent)

    def __str__(self) -> str:
        """Gives it in words."""
        return f"{self.kind} since round {self.round}" + ("" if self.until is None else f", up to {self.until - 1}")


@dataclass
class RunFacts:
    """What is known of a run; keys are ids.

    Attributes:
        run_id: The run.
        confirms: Whether the protocol confirms publications.
        is_finished: Whether the run is over; otherwise more rounds may come.
        names: Names of the nodes.
        publications: By source and number.
        messages: By source and number of the call that they serve.
        spread: By subscriber and subscription: the messages that spread it.
        others: Messages that serve no call: timers, and those of the others that were not taken.
        deliveries: Rounds and hops, by subscriber, source and number.
        downs: By node, in order.
        subscriptions: By subscriber.
        matching: By source and number: the subscriptions that it satisfies, whether issued or not.
        receivers: By subscriber, source and number: what excuses that a publication which was asked for does not come
            (view ``receiver``); None: nothing.
        links: Links with their latencies, those that others replace among them.
        changes: By ends of a link: the rounds in which it comes, or goes and another replaces it, and what it does.
        link_faults: What went wrong on links.
        waits: By source and number: where it still waits, and for what, in words.
    """

    run_id: int
    confirms: bool
    is_finished: bool
    names: dict[int, str] = field(default_factory=dict)
    publications: dict[tuple[int, int], Publication] = field(default_factory=dict)
    messages: dict[tuple[int, int], list[Message]] = field(default_factory=lambda: defaultdict(list))
    spread: dict[tuple[int, int], list[Message]] = field(default_factory=dict)
    others: list[Message] = field(default_factory=list)
    deliveries: dict[tuple[int, int, int], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    downs: dict[int, list[Down]] = field(default_factory=dict)
    subscriptions: dict[int, list[Subscription]] = field(default_factory=lambda: defaultdict(list))
    matching: dict[tuple[int, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    receivers: dict[tuple[int, int, int], str | None] = field(default_factory=dict)
    links: list[tuple[int, int, int]] = field(default_factory=list)
    changes: dict[tuple[int, int], list[tuple[int, str]]] = field(default_factory=dict)
    link_faults: list[LinkFault] = field(default_factory=list)
    waits: dict[tuple[int, int], list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))

    def at(self, round_: int) -> RunFacts:
        """Gives the same with the links that there are in a round."""
        if not self.changes:
            return self
        return replace(self, links=[link for link in self.links if self._is_there(link[:2], round_)], changes={})

    def _is_there(self, ends: tuple[int, int], round_: int) -> bool:
        """Tells whether a link is there; before its first change it was, if it went then."""
        changes = self.changes.get(ends, [(0, _LINKED)])
        before = [kind for at, kind in changes if at <= round_]
        return before[-1] == _LINKED if before else changes[0][1] == _UNLINKED

    @cached_property
    def overlay(self) -> nx.DiGraph[int]:
        """The overlay, links weighted with their latencies."""
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(self.names)
        graph.add_weighted_edges_from(self.links, weight="latency")
        return graph

    def path(self, a: int, b: int) -> list[int]:
        """Gives the nodes on the fastest way from one to another; only the two where links lead nowhere."""
        try:
            return list(nx.shortest_path(self.overlay, a, b, weight="latency"))
        except nx.NetworkXNoPath:
            return [a, b]

    def latency(self, path: Sequence[int]) -> int:
        """Adds the latencies of the links of a path."""
        return sum(self.overlay.get_edge_data(*ends, default={"latency": 0})["latency"] for ends in pairwise(path))

    def down(self, node: int, round_: int) -> Down | None:
        """Gives the newest crash of a node up to a round."""
        return next((down for down in reversed(self.downs.get(node, [])) if down.round <= round_), None)

    def loss(self, message: Message) -> LinkFault | None:
        """Gives what lost a message on its way: what loses everything, if it was that, rather than what loses some.

        A partition concerns messages between any two of its groups, and is noted at the links between them only.
        """
        met = [fault for fault in self.link_faults if fault.concerns(message)]
        split = [fault for fault in self.link_faults if fault.kind == "partition" and fault.is_at(message.sent)]
        found = [fault for kind in _LOSING for fault in met if fault.kind == kind] + split
        return found[0] if found else None

    def overtaking(self, message: Message) -> LinkFault | None:
        """Gives what let messages overtake others on a message's way before it was handled, the last such time."""
        faults = [fault for fault in self.link_faults if fault.kind == "reorder" and fault.round <= message.due]
        there = [fault for fault in faults if fault.src in (None, message.src) and fault.dst in (None, message.dst)]
        return max(there or faults, key=lambda fault: fault.round, default=None)

    def reports(self, node: int, peer: int) -> list[Message]:
        """Gives the reports of a node's failure detector about another one, lost ones among them."""
        return [m for m in self.others if m.src == m.dst == node and m.body.get("peer") == peer]


def read_facts(
    reader: StoreReader, runs: Collection[int], subscribers: Collection[int], sources: Collection[int],
    seqs: Collection[int],
) -> dict[int, RunFacts]:  # fmt: skip
    """Reads what bears on the publications of some sources for some subscribers, by run.

    Args:
        reader: The store.
        runs: Ids of the runs.
        subscribers: Ids of the subscribers.
        sources: Ids of the publishers.
        seqs: Numbers of the publications.
    """
    keys = {"runs": runs, "subscribers": subscribers, "sources": sources, "seqs": seqs}
    texts = {name: ", ".join(map(str, sorted(ids))) for name, ids in keys.items()}
    rows = {name: reader.sql(text.format(**texts)).toArrow().to_pylist() for name, text in _TABLES.items()}
    rows["waits"] = _waiting(reader, texts["runs"])
    is_finished = reader.is_finished()
    facts = {row["run_id"]: RunFacts(row["run_id"], row["confirms"], is_finished) for row in rows["run"]}
    for name, take in _TAKE.items():
        for row in rows[name]:
            take(facts[row["run_id"]], row)
    for run in facts.values():
        # An engine gives rows in any order.
        for found in (run.others, *run.messages.values()):
            found.sort(key=lambda message: message.message_id)
        for subscriptions in run.subscriptions.values():
            subscriptions.sort(key=lambda subscription: subscription.subscription_id)
        run.spread = _spread(run.messages)
        events = [row for row in rows["link_fault"] if row["run_id"] == run.run_id]
        run.link_faults, run.changes = _link_faults(events), _changes(events)
        run.downs = _downs(
            [row for row in rows["node_recovery"] if row["run_id"] == run.run_id],
            [row for row in rows["node_status"] if row["run_id"] == run.run_id],
        )
    return facts


def _waiting(reader: StoreReader, runs: str) -> list[dict[str, Any]]:
    """What the protocol says of publications that still wait; relations in its order, then by text."""
    names = [row.protocol for row in reader.sql("select distinct protocol from run").collect()]
    asked = [state.waits for name in names for state in protocol_module(name).states if state.waits is not None]
    found = (reader.sql(f"select * from ({sql}) w where run_id in ({runs})") for sql in asked)  # noqa: S608 - numbers
    return [row for rows in found for row in sorted(rows.toArrow().to_pylist(), key=lambda row: row["reason"])]


def _take_wait(run: RunFacts, row: Mapping[str, Any]) -> None:
    run.waits[row["source"], row["source_seq"]].append((row["node_id"], row["reason"]))


def _take_message(run: RunFacts, row: Mapping[str, Any]) -> None:
    found = json.loads(row["body"]) if row["body"] else {}
    body = found if isinstance(found, dict) else {}
    message = Message(
        row["message_id"], row["kind"], row["src"], row["dst"], row["sent_round"], row["due_round"], row["fate"], body
    )
    if row["source"] is None:
        run.others.append(message)
    else:
        run.messages[row["source"], row["source_seq"]].append(message)


def _take_publication(run: RunFacts, row: Mapping[str, Any]) -> None:
    run.publications[row["source"], row["source_seq"]] = Publication(
        row["source"], row["source_seq"], row["round"], row["topic"], row["content"], row["confirmed_round"]
    )


def _take_subscription(run: RunFacts, row: Mapping[str, Any]) -> None:
    run.subscriptions[row["subscriber"]].append(
        Subscription(
            row["subscription_id"], row["predicate"], row["issued_round"], row["confirmed_round"],
            row["unsubscribed_round"],
        )
    )  # fmt: skip


def _take_node(run: RunFacts, row: Mapping[str, Any]) -> None:
    run.names[row["node_id"]] = row["name"]


def _take_link(run: RunFacts, row: Mapping[str, Any]) -> None:
    run.links.append((row["src"], row["dst"], row["latency_rounds"]))


def _take_delivery(run: RunFacts, row: Mapping[str, Any]) -> None:
    run.deliveries[row["subscriber"], row["source"], row["source_seq"]].append((row["round"], row["hops"]))


def _take_matching(run: RunFacts, row: Mapping[str, Any]) -> None:
    run.matching[row["source"], row["source_seq"]].add(row["subscription_id"])


def _take_receiver(run: RunFacts, row: Mapping[str, Any]) -> None:
    run.receivers[row["subscriber"], row["source"], row["source_seq"]] = row["excuse"]


_TAKE = {
    "message": _take_message,
    "node": _take_node,
    "link": _take_link,
    "publication": _take_publication,
    "delivery": _take_delivery,
    "subscription": _take_subscription,
    "matching": _take_matching,
    "receiver": _take_receiver,
    "waits": _take_wait,
}


def _spread(messages: Mapping[tuple[int, int], list[Message]]) -> dict[tuple[int, int], list[Message]]:
    """Finds the messages that spread a subscription: those of the first call that names it; a later one ends it."""
    found: dict[tuple[int, int], list[Message]] = {}
    for (source, _), served in sorted(messages.items()):
        named = [message for message in served if message.body.get("subscription_id") is not None]
        if named:
            found.setdefault((source, named[0].body["subscription_id"]), named)
    return found


def _link_faults(events: Sequence[Mapping[str, Any]]) -> list[LinkFault]:
    """Finds the beginning of each fault of links, and the first end of its kind there after that."""
    ends = defaultdict(list)
    for row in sorted(events, key=lambda row: row["round"]):
        ends[row["kind"], row["src"], row["dst"]].append(row["round"])
    found = [
        LinkFault(kind, src, dst, round_, next((end for end in ends[f"{kind}{_END}", src, dst] if end > round_), None))
        for (kind, src, dst), rounds in list(ends.items())
        if not kind.endswith(_END) and kind not in (_LINKED, _UNLINKED)
        for round_ in rounds
    ]
    return sorted(found, key=lambda fault: (fault.round, fault.kind, fault.src or 0, fault.dst or 0))


def _changes(events: Sequence[Mapping[str, Any]]) -> dict[tuple[int, int], list[tuple[int, str]]]:
    """Sorts the comings and goings of links; one that goes and comes in the same round is there."""
    found = defaultdict(list)
    for row in sorted(events, key=lambda row: (row["round"], row["kind"] == _LINKED)):
        if row["kind"] in (_LINKED, _UNLINKED):
            found[row["src"], row["dst"]].append((row["round"], row["kind"]))
    return dict(found)


def _downs(crashes: Iterable[Mapping[str, Any]], statuses: Sequence[Mapping[str, Any]]) -> dict[int, list[Down]]:
    said = defaultdict(list)
    for row in statuses:
        said[row["node_id"]].append((row["round"], row["status"]))
    found = defaultdict(list)
    for row in crashes:
        found[row["node_id"]].append(_down(row, said[row["node_id"]]))
    return dict(found)


def _down(row: Mapping[str, Any], said: Sequence[tuple[int, str]]) -> Down:
    """Makes a down time of a row of view ``node_recovery``; where the protocol says nothing, nothing is restored."""
    until, operational = row["recovery_round"], row["operational_round"]
    end = row["until_round"] if operational is None else operational + 1
    after = tuple(pair for pair in said if until is not None and until <= pair[0] < (NEVER if end is None else end))
    return Down(row["node_id"], row["crash_round"], until, operational if after else None, after)

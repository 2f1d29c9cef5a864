"""Plays a schedule round by round, one node at a time."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from oracles.delta.connections import connection_request, failures_detected, request_join, status
from oracles.delta.forwarding import accept, confirmation, receive
from oracles.delta.joining import join_request, serve_requests
from oracles.delta.messages import Envelope, Multicast
from oracles.delta.node import Connection, Node, Status
from oracles.delta.recovery import check_synchronised, finish_join, par_sub, par_top, recover, syn_request
from oracles.delta.schedule import Call, Crash, Schedule
from oracles.delta.view import Link, Path, View, link

HANDLERS: dict[str, Callable[[Node, Envelope], None]] = {
    "MULTICAST": receive,
    "CONF": confirmation,
    "CONNECTION_REQUEST": connection_request,
    "STATUS": status,
    "SYN_REQUEST": syn_request,
    "PAR_TOP": par_top,
    "PAR_SUB": par_sub,
    "JOIN_REQUEST": join_request,
}
_OPENING = ("CONNECTION_REQUEST", "SYN_REQUEST", "JOIN_REQUEST")
_KINDS = {"subscribe": "SUB", "unsubscribe": "UNSUB", "publish": "PUB"}


class Network:
    """The links, the failure detector, the clock, and the recorded history."""

    def __init__(self, schedule: Schedule, detector: str) -> None:
        self.schedule = schedule
        self.delta = schedule.delta
        self.detector = detector
        self.round = 0
        self.nodes: dict[int, Node] = {}
        self.subscriber = {call.number: call.node for call in schedule.calls if call.kind == "subscribe"}
        self.deliveries: list[tuple[int, int, int, int]] = []
        self.statuses: list[tuple[int, int, str]] = []
        self.issued: dict[tuple[str, int, int], tuple[int, int]] = {}
        self.accepted: set[tuple[str, int, int]] = set()
        self.confirmations: dict[tuple[str, int, int], int] = {}
        self.notes: list[tuple[int, str, int, Any]] = []
        self.refused: list[tuple[int, Multicast, bool]] = []
        self.count: Counter[str] = Counter()
        self._inbox: dict[int, list[Envelope]] = defaultdict(list)
        self._reports: dict[int, list[tuple[int, int, int | None, int]]] = defaultdict(list)
        self._last_low: dict[tuple[int, int], int] = {}
        self._answering: dict[tuple[int, int, int], int] = {}
        self._crashed: dict[tuple[int, int], int] = {}
        self._agenda: list[int] = []
        self._order = itertools.count()
        self._calls: dict[int, list[Call]] = defaultdict(list)
        self._numbers: dict[tuple[int, tuple[int, int]], tuple[str, int, int]] = {}
        self._downs: dict[int, list[Crash]] = defaultdict(list)
        self._ups: dict[int, list[int]] = defaultdict(list)
        self._latency = _distances(schedule.links)
        self._start()

    def _start(self) -> None:
        joining = {call.node for call in self.schedule.calls if call.kind == "join"}
        names = sorted({x for ends in self.schedule.links for x in ends})
        standing = [(ends, False) for ends in self.schedule.links if joining.isdisjoint(ends)]
        for name in names:
            node = self.nodes[name] = Node(name, self)
            if name in joining:
                continue
            node.view.add(standing)
            node.status = Status.OPERATIONAL
            for peer in node.view.neighbours(name):
                node.connections[peer] = Connection(0, 0)
        for call in self.schedule.calls:
            self._calls[call.round].append(call)
            self._wake(call.round)
        for crash in self.schedule.crashes:
            self.plan(crash)

    def plan(self, crash: Crash) -> None:
        """Adds a crash in the current round or later."""
        self._downs[crash.round].append(crash)
        self._wake(crash.round)
        if crash.until is not None:
            self._ups[crash.until].append(crash.node)
            self._wake(crash.until)

    def run(self, until: int) -> None:
        """Plays the rounds up to ``until``, or until no event is left."""
        while self._agenda and self._agenda[0] <= until:
            self.step()

    def step(self) -> None:
        """Plays the next round in the order of settled rule 34."""
        self.round = self._agenda[0]
        while self._agenda and self._agenda[0] == self.round:
            heapq.heappop(self._agenda)
        self._faults()
        self._detect()
        self._receive()
        for call in self._calls.pop(self.round, ()):
            self._call(call)

    def _wake(self, at: int) -> None:
        heapq.heappush(self._agenda, at)

    # Faults and their detection.

    def _faults(self) -> None:
        for crash in self._downs.pop(self.round, ()):
            node = self.nodes[crash.node]
            self.count["crashes"] += 1
            self.count["crashes while recovering"] += node.status in (Status.RECOVERING, Status.OPERATIONAL_STAR)
            self.count["crashes while joining"] += node.status in (Status.DETACHED, Status.ATTACHED)
            node.become(Status.FAILED)
            self._crashed[node.name, node.incarnation] = self.round
            for watcher in self.nodes.values():
                self._report_crash(watcher, node.name, node.incarnation)
        for name in self._ups.pop(self.round, ()):
            recover(self.nodes[name])

    def watch(self, node: Node, peer: int) -> None:
        """Starts the failure detector on an accepted connection; the peer may have crashed since its request."""
        incarnation = node.connections[peer].incarnation
        if incarnation is not None and (peer, incarnation) in self._crashed:
            self._report_crash(node, peer, incarnation)

    def _report_crash(self, watcher: Node, peer: int, incarnation: int) -> None:
        delay = max(self.schedule.detection, self._latency[watcher.name, peer])
        self._report(self.round + delay, watcher.name, peer, incarnation, self.round)

    def _report(self, at: int, watcher: int, peer: int, incarnation: int | None, since: int) -> None:
        self._reports[at].append((watcher, peer, incarnation, since))
        self._wake(at)

    def _detect(self) -> None:
        reported: dict[int, set[int]] = defaultdict(set)
        for watcher, peer, incarnation, since in self._reports.pop(self.round, ()):
            held = self.nodes[watcher].connections.get(peer)
            if held is None or self.nodes[watcher].status is Status.FAILED:
                continue
            is_lost_request = incarnation is None and not held.is_open and held.arrival == since
            is_crash = incarnation is not None and self._meant(watcher, peer, held) == incarnation
            if is_lost_request or (is_crash and held.arrival <= since):
                reported[watcher].add(peer)
        for watcher in sorted(reported):
            failures_detected(self.nodes[watcher], reported[watcher])
            check_synchronised(self.nodes[watcher])

    def _meant(self, watcher: int, peer: int, held: Connection) -> int | None:
        """Returns the incarnation of the peer of a connection, even if the request has not been answered yet."""
        return held.incarnation if held.is_open else self._answering.get((watcher, peer, held.arrival))

    # Messages.

    def send(
        self, node: Node, dst: int, kind: str, body: Any, *, incarnation: int | None = -1, low: int | None = None
    ) -> int:
        """Puts a message on a link, and returns the due round.

        By default, the message is addressed to the incarnation of the peer on the connection.
        """
        if incarnation == -1:
            incarnation = node.connections[dst].incarnation
        due = self.round + self._latency[node.name, dst]
        if low is not None:
            due += self.schedule.low_priority * (1 + low // 8)
            due = self._last_low[node.name, dst] = max(due, self._last_low.get((node.name, dst), 0))
        self._inbox[due].append(
            Envelope(kind, node.name, dst, node.incarnation, incarnation, body, low is not None, next(self._order))
        )
        self._wake(due)
        return due

    def _receive(self) -> None:
        due = sorted(self._inbox.pop(self.round, ()), key=lambda e: (e.dst, e.is_low, e.src, e.order))
        for name, group in itertools.groupby(due, key=lambda e: e.dst):
            node = self.nodes[name]
            envelopes = [e for e in group if self._arrives(node, e)]
            for e in envelopes:
                if e.kind == "MULTICAST" and e.body.kind == "J" and node.status is not Status.DETACHED:
                    node.view.add([(link(e.body.source, e.body.join_point), True)])
            for e in envelopes:
                HANDLERS[e.kind](node, e)
                check_synchronised(node)

    def _arrives(self, node: Node, e: Envelope) -> bool:
        if node.status is Status.FAILED:
            if e.kind in _OPENING:
                self._report(self.round + self.schedule.detection, e.src, node.name, None, self.round)
            return False
        if e.kind in _OPENING:
            self._answering[e.src, node.name, self.round] = node.incarnation
        return e.dst_incarnation in (None, node.incarnation)

    # Calls.

    def _call(self, call: Call) -> None:
        node = self.nodes[call.node]
        if node.status is Status.FAILED:
            return
        if call.kind == "join":
            node.join_point = call.join_point
            self.issued["join", node.name, 0] = (self.round, node.incarnation)
            request_join(node)
            return
        self.accepted.add((call.kind, node.name, call.number))
        node.calls.append(call)
        if node.status is Status.OPERATIONAL:
            self._issue(node)

    def _issue(self, node: Node) -> None:
        while node.calls:
            call = node.calls.pop(0)
            stamp = node.stamp()
            number = self._numbers[node.name, stamp] = (call.kind, node.name, call.number)
            self.issued[number] = (self.round, node.incarnation)
            is_publication = call.kind == "publish"
            m = Multicast(
                _KINDS[call.kind], node.name, stamp, matches=call.matches,
                seq=call.number if is_publication else -1,
                subscription=-1 if is_publication else call.number,
                origin=None if is_publication else node.name,
            )  # fmt: skip
            accept(node, m, None)

    def confirmed(self, node: Node, m: Multicast) -> None:
        """Handles the Conf of a message at its source."""
        if m.kind == "REJOIN":
            self.operational(node)
        elif m.kind == "J":
            finish_join(node)
        else:
            self.confirmations[self._numbers[m.key]] = self.round

    def operational(self, node: Node) -> None:
        """Makes a node OPERATIONAL, and serves the requests and calls that waited for this."""
        node.become(Status.OPERATIONAL)
        number = ("join", node.name, 0)
        if node.join_point >= 0:
            self.confirmations.setdefault(number, self.round)
        serve_requests(node)
        self._issue(node)

    def stored_topology(self, name: int) -> list[tuple[Link, bool]]:
        """The topology repository: returns the stored view of a node, which may be down."""
        return list(self.nodes[name].view.marks.items())

    def passed_over(self, hops: Path) -> None:
        """Checks the Key Corollary: a copy skips no node that is OPERATIONAL or OPERATIONAL*.

        The corollary does not apply to copies to a synchronising peer: Algorithm 7 sends them to the peer that
        requested them, and a skipped node may have become OPERATIONAL* since the peer found it failed.
        """
        for name in hops[1:-1]:
            if self.nodes[name].status in (Status.OPERATIONAL_STAR, Status.OPERATIONAL):
                self.note("skipped", name, hops)

    def note(self, what: str, node: int, key: Any) -> None:
        """Records an event that must not happen."""
        self.notes.append((self.round, what, node, key))


def play(schedule: Schedule, detector: str, until: int = 10_000) -> Network:
    """Plays a whole schedule with one of the duplicate detectors, ``identifier`` or ``visited``."""
    network = Network(schedule, detector)
    network.run(until)
    return network


def _distances(links: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """Returns the latency between any two nodes: the sum of the latencies on their path in the tree."""
    tree = View(0, len(links))
    found: dict[tuple[int, int], int] = {}
    for start in {x for ends in links for x in ends}:
        tree = View(start, len(links))
        tree.add([(ends, False) for ends in links])
        for x, path in tree.paths.items():
            found[start, x] = sum(links[link(a, b)] for a, b in itertools.pairwise(path))
    return found

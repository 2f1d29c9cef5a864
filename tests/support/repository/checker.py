"""Checks the promises of the protocol in a run that is played round by round.

The checker reads the disks of nodes and the messages on links. It computes itself which node must have which message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from udfs.nodes.local import LocalNetwork

from .schedules import Schedule

Key = tuple[str, int, int, int]


class Disk:
    """The state of a node: the whole state if the node is up, the durable state if the node is down."""

    def __init__(self, network: LocalNetwork, node: int) -> None:
        self.is_up = node in network.up
        self._kept = network.node(node) if self.is_up else network.durable(node)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name) if self.is_up else self._kept.get(name, {})


class Checker:
    """Plays and checks a run; ``violations`` contains a phrase for each violation."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.network = schedule.network()
        self.violations: list[str] = []
        self.repositories, self.clients = schedule.of_role("repository"), schedule.of_role("client")
        self.key: dict[tuple[str, int, int], Key] = {}
        self.topic: dict[tuple[int, int], str] = {}
        self.matches: dict[tuple[int, int], tuple[int, ...]] = {}
        self.issued: dict[tuple[int, int], int] = {}
        self.delivered: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.confirmed: dict[tuple[int, int], int] = {}
        self._kept: dict[tuple[int, str], tuple[int, set[int]]] = {}
        self._designated: dict[tuple[int, str], tuple[int | None, int]] = {}
        self._asked: dict[tuple[str, str, int, int, int], int] = {}
        self._passed: dict[tuple[int, str, int | None, int], int] = defaultdict(int)
        self._n_delivered = self._n_calls = 0
        self.deregistered = {of["peer"] for _, kind, _, of in schedule.calls if kind == "deregister"}
        seqs: dict[int, int] = defaultdict(int)
        for node, kind, round_, of in sorted(schedule.calls, key=lambda call: call[2]):
            seqs[node] += 1
            if kind == "publish":
                self.topic[node, seqs[node]] = of["topic"]
                self.matches[node, seqs[node]] = of["matches"]
                self.issued[node, seqs[node]] = round_

    def run(self, most: int = 20) -> list[str]:
        """Plays the run to its end, or up to the round with violation number ``most``; returns the violations."""
        for round_ in range(self.schedule.end_round + 1):
            self.network.play(round_)
            self._observe(round_)
            if len(self.violations) >= most:
                return self.violations
        self._twice()
        self._nothing_lost()
        self._nothing_pending()
        return self.violations

    def disk(self, node: int) -> Disk:
        """Returns the state of a node."""
        return Disk(self.network, node)

    def _say(self, what: str) -> None:
        self.violations.append(f"round {self.network.round}: {what}")

    def _observe(self, round_: int) -> None:
        for flight in self.network.in_flight:
            if flight.sent_round == round_:
                self._on_link(flight)
        for node, seq, at, kind in self.network.rows.calls[self._n_calls :]:
            if kind == "confirmed":
                self.confirmed[node, seq] = at
        self._n_calls = len(self.network.rows.calls)
        for node, _, one in self.network.rows.delivered[self._n_delivered :]:
            self._on_delivery(node, (one.source, one.source_seq))
        self._n_delivered = len(self.network.rows.delivered)
        self._on_publishers()
        self._on_subscribers()

    def _on_link(self, flight: Any) -> None:
        m = flight.message
        if flight.kind in ("P2R-Order", "P2R-Retransmit"):
            self.key[m.topic, m.source, m.source_seq] = (m.topic, m.source, m.incarnation, m.n)
        elif flight.kind in ("R2S-Sync", "R2S-Rectify") and flight.src == m.origin:
            self._sync_passes_nothing(m.origin, m.to[0], m)
        if flight.kind in ("P2R-Recovery", "S2R-Recovery") and flight.dst == m.steering and flight.fate is None:
            asked = m.topic, flight.kind[0], m.origin, m.designation, m.steering
            self._asked[asked] = min(self._asked.get(asked, flight.due_round), flight.due_round)
        elif flight.kind in ("R2P-NAK", "R2S-Sync", "R2S-Rectify") and flight.src == m.origin:
            self._steers_who_has_asked(flight.kind[2], m)

    def _steers_who_has_asked(self, role: str, m: Any) -> None:
        """Checks that the client asked the repository of ``m``, with the designation in ``m`` (rule P13)."""
        asked = self._asked.get((m.topic, role, m.to[0], m.designation, m.origin))
        if asked is None or asked > self.network.round:
            self._say(f"{m.origin} steers {m.to[0]}, designation {m.designation}, which has not asked it")

    def _sync_passes_nothing(self, repository: int, client: int, m: Any) -> None:
        """Checks a sync. It may pass messages of or to deregistered clients, which need not be delivered (P25)."""
        disk, own, topic, sync = self.disk(repository), self.disk(client), m.topic, m.sync
        row = disk.subscriber.get((topic, client))
        if row is not None and row.number > m.designation:
            return  # the client's subscriptions have changed later in this round
        if sync > disk.log[topic].frontier:
            self._say(f"sync {sync} of {client} at {repository} is beyond the frontier {disk.log[topic].frontier}")
        for seq in range(1, sync + 1):
            slot = disk.slot[topic, seq]
            if slot.status == "reserved":
                self._say(f"sync {sync} of {client} at {repository} passes reserved {seq}")
            if row is None or slot.status != "stored" or not _asks_for(row.interests, slot):
                continue
            if self.deregistered & {client, slot.publisher}:
                continue
            mark = own.mark.get((topic, slot.publisher, slot.incarnation))
            if mark is None or mark.n < slot.n:
                self._say(f"sync {sync} of {client} at {repository} passes {seq}, which it has not delivered")

    def _on_delivery(self, client: int, message: tuple[int, int]) -> None:
        topic = self.topic[message]
        key = self.key[topic, *message]
        if message in self.delivered[client]:
            self._say(f"{client} delivers {message} twice")
        own = [one for one in self.disk(client).subscribed.values() if one.cut is not None]
        if not any(one.subscription_id in self.matches[message] and key[3] > _cut(one.cut, *key[1:3]) for one in own):
            self._say(f"{client} delivers {message}, to which it does not subscribe")
        for other in self.delivered[client]:
            before = self.key[self.topic[other], *other]
            if before[:3] == key[:3] and before[3] > key[3]:
                self._say(f"{client} delivers {key} after {before}")
        self.delivered[client].append(message)
        self._in_order_of_repository(client, key)

    def _in_order_of_repository(self, client: int, key: Key) -> None:
        topic = key[0]
        repository, number = self._designated.get((client, topic), (None, -1))
        if repository is None:
            self._say(f"{client} delivers {key} without a steering repository")
            return
        slots = self.disk(repository).slot.values()
        seqs = [
            slot.seq
            for slot in slots
            if slot.status == "stored" and (slot.topic, slot.publisher, slot.incarnation, slot.n) == key
        ]
        index = client, topic, repository, number
        if not seqs or seqs[0] < self._passed[index]:
            self._say(f"{client} delivers {key} against the order of {repository}: {seqs} after {self._passed[index]}")
        self._passed[index] = max([self._passed[index], *seqs])

    def _on_subscribers(self) -> None:
        for client in self.clients:
            disk = self.disk(client)
            rows = disk.steering.values() if disk.is_up else ()
            for row in rows:
                if row.role == "subscriber":
                    self._designated[client, row.topic] = row.repository, row.designation

    def _on_publishers(self) -> None:
        for client in self.clients:
            disk = self.disk(client)
            if not disk.is_up:
                self._kept = {index: kept for index, kept in self._kept.items() if index[0] != client}
                continue
            for topic, row in disk.publishing.items():
                kept = {n for (one, n) in disk.unstable if one == topic}
                before = self._kept.get((client, topic))
                if before is not None and before[0] == row.incarnation:
                    for n in before[1] - kept:
                        self._is_stable((topic, client, row.incarnation, n))
                self._kept[client, topic] = row.incarnation, kept

    def _is_stable(self, key: Key) -> None:
        for repository in self.repositories:
            disk = self.disk(repository)
            log = disk.log.get(key[0])
            if log is None or not log.is_member or not log.is_complete or log.is_left:
                continue
            if key not in self._stored(disk):
                self._say(f"publisher drops {key}, which {repository} does not have")

    def _stored(self, disk: Disk) -> set[Key]:
        found = [slot for slot in disk.slot.values() if slot.status == "stored"]
        return {(one.topic, one.publisher, one.incarnation, one.n) for one in [*found, *disk.orphan.values()]}

    def _filled(self, disk: Disk) -> set[Key]:
        return {
            (slot.topic, slot.publisher, slot.incarnation, slot.n)
            for slot in disk.slot.values()
            if slot.status == "stored" and slot.seq <= disk.log[slot.topic].frontier
        }

    def _twice(self) -> None:
        for repository in self.repositories:
            keys = [
                (slot.topic, slot.publisher, slot.incarnation, slot.n)
                for slot in self.disk(repository).slot.values()
                if slot.status == "stored"
            ]
            if len(keys) != len(set(keys)):
                self._say(f"{repository} stores a message twice")

    def _nothing_lost(self) -> None:
        """Checks that each message is stored and delivered where it must be, unless rule P23 excuses the loss."""
        gone = {node for node, _, end in self.schedule.crashes if end is None}
        filled: dict[Key, set[int]] = defaultdict(set)
        for repository in self.repositories:
            for key in self._filled(self.disk(repository)):
                filled[key].add(repository)
        anybody = {message for of in self.delivered.values() for message in of}
        for message, topic in self.topic.items():
            key = self.key.get((topic, *message))
            crashes = [round_ for node, round_, _ in self.schedule.crashes if node == message[0]]
            is_crashed = any(round_ >= self.issued[message] for round_ in crashes) or self._was_down(message)
            holders = filled[key] if key else set()
            if not is_crashed and not holders - gone:
                self._say(f"{message} {key} of a publisher that has not crashed is not stored")
            if holders - gone or (message in anybody and not is_crashed):
                self._everybody_has(message, key)
            elif message in anybody and not holders & gone:
                self._say(f"{message} {key} is delivered and not stored")

    def _was_down(self, message: tuple[int, int]) -> bool:
        round_ = self.issued[message]
        spans = [(start, end) for node, start, end in self.schedule.crashes if node == message[0]]
        return any(start <= round_ and (end is None or round_ < end) for start, end in spans)

    def _everybody_has(self, message: tuple[int, int], key: Key | None) -> None:
        for client, row in self._subscriptions():
            if row.subscription_id not in self.matches[message] or row.topic != self.topic[message] or row.is_ended:
                continue
            if row.cut is None or key is None:
                continue
            cut = _cut(row.cut, *key[1:3])
            if key[3] > cut and message not in self.delivered[client]:
                self._say(f"{client} lacks {message} {key}")
            since = self._confirmed_since(client, row.subscription_id)
            if key[3] <= cut and since is not None and since < self.issued[message]:
                self._say(f"{client} has a cut behind {message} {key}, issued after the subscription's confirmation")

    def _subscriptions(self) -> Iterator[tuple[int, Any]]:
        for client in self.clients:
            for row in self.disk(client).subscribed.values():
                yield client, row

    def _confirmed_since(self, client: int, subscription_id: int) -> int | None:
        seq = 0
        for node, kind, _, of in sorted(self.schedule.calls, key=lambda call: call[2]):
            seq += node == client
            if (node, kind) == (client, "subscribe") and of["subscription_id"] == subscription_id:
                return self.confirmed.get((client, seq))
        return None

    def _nothing_pending(self) -> None:
        gone = {node for node, _, end in self.schedule.crashes if end is None}
        for client in self.clients:
            node = self.disk(client)
            for name in ("expected", "unsynced", "queued", "buffered"):
                if getattr(node, name):
                    self._say(f"{client} still has {name}: {getattr(node, name)}")
            if node.unstable and not gone:
                self._say(f"{client} still has copies: {node.unstable}")
            for row in node.steering.values():
                if not row.is_established:
                    self._say(f"{client} has no steering repository: {row}")
            for one in node.subscribed.values():
                if one.cut is None or one.source_seq is not None:
                    self._say(f"{client} waits with its subscription {one}")
        for repository in set(self.repositories) - gone:
            self._is_quiet(repository, gone)

    def _is_quiet(self, repository: int, gone: set[int]) -> None:
        """Checks that nothing is pending at a repository, except that a leaving one may wait for failed members (P26).

        A message that only permanently failed repositories have is lost (rule P23).
        """
        node = self.disk(repository)
        for topic, log in node.log.items():
            duty = node.duty.get(topic)
            if log.is_left or not log.is_member:
                continue
            if (log.is_leaving and not gone) or duty is None or not duty.is_operational:
                self._say(f"{repository} is not operational: {log} {duty}")
            if log.frontier < log.last_seq:
                self._say(f"{repository} still has reserved numbers behind {log.frontier}")
            found = [key for key, row in node.lacking.items() if row.holders - gone]
            lacking = [key for key in (*found, *node.missed, *node.storing) if key[0] == topic]
            if lacking:
                self._say(f"{repository} still lacks {lacking[:5]}")


def _cut(cut: Any, publisher: int, incarnation: int) -> int:
    return next((one.n for one in cut if (one.publisher, one.incarnation) == (publisher, incarnation)), 0)


def _asks_for(interests: Any, slot: Any) -> bool:
    matching = [one for one in interests if one.subscription_id in slot.publication.matches]
    return any(slot.n > _cut(one.cut, slot.publisher, slot.incarnation) for one in matching)

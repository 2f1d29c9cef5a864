"""One dispatcher: its tables and its handling of messages, as in Figures 2 and 3."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oracles.epidemic import draws
from oracles.epidemic.cache import Cache
from oracles.epidemic.messages import CALL_TRIGGER, TIMER_TRIGGER, Entry, Event, Message

PUSH = ("push", "push_pull")
SUBSCRIBER = ("subscriber_pull", "combined_pull", "push_pull")
PUBLISHER = ("publisher_pull", "combined_pull", "push_pull")
Delivery = tuple[int, int, int, int, int]


class Dispatcher:
    """A dispatcher; the network sets ``round_`` before each round, and reads ``sent`` and ``delivered`` after it."""

    def __init__(self, node: int, neighbours: list[int], settings: Any, seed: int) -> None:
        self.node, self.neighbours, self.settings, self.seed = node, sorted(neighbours), settings, seed
        self.clients: dict[int, tuple[int, bool]] = {}
        self.counters: dict[int, int] = {}
        self.received: dict[tuple[int, int], bool] = {}
        self.expected: dict[tuple[int, int], tuple[int, bool]] = {}
        self.interval = settings.gossip_rounds
        self.next_round = int(draws.uniform(seed, "epidemic.phase", node) * settings.gossip_rounds)
        self.push_end_round, self.is_busy = -1, False
        self.cache = Cache(node, settings, seed)
        self.sent: list[Message] = []
        self.delivered: list[Delivery] = []
        self.dropped: list[Message] = []
        self.round_ = 0
        self.crash()

    def crash(self) -> None:
        self.table: set[tuple[int, int]] = set()
        self.cache.clear()
        self.lost: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.routes: dict[int, tuple[int, tuple[int, ...]]] = {}

    def begin(self, round_: int) -> None:
        self.round_, self.sent, self.delivered, self.dropped = round_, [], [], []
        self.answered: set[tuple[int, tuple[int, int]]] = set()
        self.has_detected = False
        self.before = set(self.table)
        self.fresh: set[int] = set()

    def subscribed(self, pattern: int | None) -> bool:
        return any(own == pattern for own, _ in self.clients.values())

    def relink(self, gone: set[int], come: set[int]) -> None:
        """Removes the links to the neighbours ``gone``, and adds links to the neighbours ``come``."""
        self.neighbours = sorted({*self.neighbours} - gone | come)
        self.table = {(p, next_hop) for p, next_hop in self.table if next_hop not in gone}
        self.fresh = come

    def hear(self, message: Message) -> None:
        """Handles SUB and UNSUB."""
        if message.src not in self.neighbours:
            return
        entry = (message.pattern or 0, message.src)
        (self.table.add if message.kind == "SUB" else self.table.discard)(entry)

    def subscribe(self, subscription: int, pattern: int, is_initial: bool) -> None:
        self.clients[subscription] = (pattern, is_initial)

    def unsubscribe(self, subscription: int) -> None:
        pattern, _ = self.clients.pop(subscription)
        if not self.subscribed(pattern):
            self.lost = {key: when for key, when in self.lost.items() if key[1] != pattern}
            self.expected = {
                key: (number, counts and key[1] != pattern) for key, (number, counts) in self.expected.items()
            }

    def tell(self, returned: set[int]) -> None:
        """Sends each neighbour the changes of the table in this round, or, if it is ``returned``, the whole table."""
        self.table = {(p, next_hop) for p, next_hop in self.table if next_hop != self.node}
        self.table |= {(pattern, self.node) for pattern, _ in self.clients.values()}
        for pattern in sorted({p for p, _ in self.before | self.table}):
            for m in self.neighbours:
                knew = any(p == pattern and next_hop != m for p, next_hop in self.before)
                knows = any(p == pattern and next_hop != m for p, next_hop in self.table)
                if knows and (not knew or m in returned | self.fresh):
                    self._send("SUB", m, 0, pattern, pattern=pattern)
                if knew and not knows and m not in self.fresh:
                    self._send("UNSUB", m, 0, pattern, pattern=pattern)

    def _send(self, kind: str, dst: int, trigger: int, rank: int, **what: Any) -> None:
        self.sent.append(Message(trigger, rank, kind, self.node, dst, self.round_, **what))

    def publish(self, seq: int, matches: tuple[int, ...]) -> None:
        tags = []
        for pattern in matches:
            if any(p == pattern for p, _ in self.table):
                self.counters[pattern] = self.counters.get(pattern, 0) + 1
                tags.append((pattern, self.counters[pattern]))
        if matches:
            event = Event(self.node, seq, self.round_, matches, tuple(tags))
            self._take(Message(CALL_TRIGGER + seq, 0, "PUBLISH", self.node, self.node, self.round_, event))

    def take(self, message: Message) -> None:
        """Handles EVENT and REPLY."""
        self._take(replace(message, trigger=message.message_id))

    def _take(self, message: Message) -> None:
        event = message.event
        assert event is not None
        is_new = event.key not in self.received
        is_routable = message.kind != "REPLY" and not self.received.get(event.key, False)
        wanted = {next_hop for p, next_hop in self.table if p in event.matches}
        if is_new:
            self._keep(message, event, is_own=message.kind == "PUBLISH" or self.node in wanted)
        elif not is_routable:
            self.dropped.append(message)
        if is_new or is_routable:
            self.received[event.key] = self.received.get(event.key, False) or is_routable
        if is_routable:
            if message.kind == "EVENT" and self.node in wanted and self.settings.recovery in PUBLISHER:
                newest, _ = self.routes.get(event.source, (-1, ()))
                if event.seq > newest:
                    self.routes[event.source] = event.seq, tuple(reversed(message.path))
            for next_hop in wanted - {self.node, message.src}:
                what = {"event": event, "hops": message.hops + 1, "path": (*message.path, self.node)}
                self._send("EVENT", next_hop, message.trigger, 0, **what)

    def _keep(self, message: Message, event: Event, is_own: bool) -> None:
        """Handles the first copy of an event: delivers it, caches it, and detects losses."""
        if any(self.subscribed(pattern) for pattern in event.matches):
            self.delivered.append((self.node, event.source, event.seq, self.round_, message.hops))
        if self.settings.recovery == "none":
            return
        if is_own or self.settings.caching == "all":
            self.cache.put(event, message.hops, is_own)
            if self.settings.recovery in PUSH:
                self.push_end_round = self.round_ + self.settings.push_rounds
        if message.kind != "PUBLISH" and self.settings.recovery in {*SUBSCRIBER, *PUBLISHER}:
            for pattern, number in event.tags:
                self._count(event.source, pattern, number)

    def _count(self, source: int, pattern: int, number: int) -> None:
        self.lost.pop((source, pattern, number), None)
        is_initial = any(p == pattern and initial for p, initial in self.clients.values())
        expected, counts = self.expected.get((source, pattern), (1, is_initial))
        if self.subscribed(pattern) and counts:
            for missing in range(expected, number):
                self.lost[source, pattern, missing] = self.round_, self.round_ + self.settings.lost_rounds
        self.expected[source, pattern] = max(expected, number + 1), self.subscribed(pattern)

    def settle(self) -> None:
        """Ends the events of a round: removes expired losses, and the oldest if LostBuffer exceeds its capacity."""
        valid = [(key, when) for key, when in self.lost.items() if when[1] > self.round_]
        valid.sort(key=lambda item: (-item[1][0], item[0]))
        self.has_detected = any(since == self.round_ for since, _ in self.lost.values())
        self.lost = dict(valid[: self.settings.lost_buffer])
        self.is_busy = self.is_busy or self.has_detected

    def gossip(self, message: Message) -> None:
        """Handles GOSSIP (handleGossipMsg)."""
        trigger = message.message_id
        if message.style == "push":
            missed = tuple(e for e in message.digest if (e[0], e[2]) not in self.received)
            if self.subscribed(message.pattern) and missed:
                latency = self.settings.out_of_band_rounds
                self._send("REQUEST", message.initiator or 0, trigger, 1, digest=missed, latency=latency)
        else:
            found = [e for e in message.digest if (event := self.cache.find(e)) is not None
                     and self._reply(event, message.initiator or 0, trigger)]  # fmt: skip
            rest = tuple(e for e in message.digest if e not in found)
            if message.style == "publisher" and rest and message.path:
                self._back(message.path, trigger, 0, message.initiator or 0, rest)
        if message.style == "publisher":
            return
        always = not self.subscribed(message.pattern) and (
            message.style == "subscriber" or self.settings.push_draw == "subscribers"
        )
        keys = self.node, self.round_, message.initiator or 0, 1 if message.style == "push" else 2
        if always or draws.uniform(self.seed, "epidemic.forward", *keys) < self.settings.p_forward:
            self._towards(message, trigger, 0, {message.src})

    def request(self, message: Message) -> None:
        """Handles REQUEST (handleReqMsg)."""
        self.is_busy = True
        for source, _, seq in message.digest:
            event = self.cache.get((source or 0, seq))
            if event is not None:
                self._reply(event, message.src, message.message_id)

    def _reply(self, event: Event, requester: int, trigger: int) -> bool:
        if (requester, event.key) not in self.answered:
            self.answered.add((requester, event.key))
            what = {"event": event, "hops": self.cache.hops(event) + 1, "latency": self.settings.out_of_band_rounds}
            self._send("REPLY", requester, trigger, 1, **what)
        return True

    def _towards(self, message: Message, trigger: int, rank: int, but: set[int]) -> None:
        next_hops = {next_hop for p, next_hop in self.table if p == message.pattern} - but - {self.node}
        initiator, style = message.initiator or 0, 1 if message.style == "push" else 2
        drawn = sorted(
            next_hops,
            key=lambda v: (draws.bits(self.seed, "epidemic.neighbour", self.node, self.round_, initiator, style, v), v),
        )
        for next_hop in drawn[: self.settings.fanout]:
            what = {"style": message.style, "initiator": initiator, "pattern": message.pattern}
            self._send("GOSSIP", next_hop, trigger, rank, digest=message.digest, **what)

    def _back(self, path: tuple[int, ...], trigger: int, rank: int, initiator: int, digest: tuple[Entry, ...]) -> None:
        what = {"style": "publisher", "initiator": initiator, "digest": digest}
        if path[0] not in self.neighbours:
            if self.settings.broken_route == "drop":
                return
            what["latency"] = self.settings.out_of_band_rounds
        self._send("GOSSIP", path[0], trigger, rank, path=path[1:], **what)

    def timer(self) -> None:
        """Handles the gossip timer: starts a gossip round (startGossipRound) if it is due."""
        since = self.round_ - self.next_round
        is_on_time = since >= 0 and since % self.interval == 0
        may_push = is_on_time and self.push_end_round > self.round_
        if may_push:
            self._start_push()
        lost = [key for key, (_, expires) in self.lost.items() if expires > self.round_]
        if lost and (is_on_time or (self.settings.gossip_on_detection and self.has_detected)):
            self._start_pulls(lost)
        if is_on_time and (self.push_end_round > self.round_ or lost):
            self._pace()

    def _pace(self) -> None:
        self.next_round = self.round_
        if self.settings.adaptive:
            low, high = self.settings.gossip_rounds_min, self.settings.gossip_rounds_max
            self.interval = max(low, self.interval // 2) if self.is_busy else min(high, self.interval * 2)
        self.next_round += self.interval
        self.is_busy = False

    def _start_push(self) -> None:
        known = {p for p, next_hop in self.table if self.settings.push_patterns == "all" or next_hop == self.node}
        if not known:
            return
        chosen = min(known, key=lambda p: (draws.bits(self.seed, "epidemic.pattern", self.node, self.round_, p), p))
        digest = tuple(sorted((e.source, None, e.seq) for e in self.cache.events() if chosen in e.matches))
        if digest:
            self._label("push", 1, chosen, digest)

    def _start_pulls(self, lost: list[tuple[int, int, int]]) -> None:
        if self.settings.recovery in SUBSCRIBER:
            patterns = {p for _, p, _ in lost}
            chosen = min(
                patterns, key=lambda p: (draws.bits(self.seed, "epidemic.pattern", self.node, self.round_, p), p)
            )
            self._label("subscriber", 2, chosen, tuple(sorted(key for key in lost if key[1] == chosen)))
        sources = {s for s, _, _ in lost if s in self.routes}
        if self.settings.recovery in PUBLISHER and sources:
            source = min(
                sources, key=lambda s: (draws.bits(self.seed, "epidemic.source", self.node, self.round_, s), s)
            )
            digest = tuple(sorted(key for key in lost if key[0] == source))
            self._back(self.routes[source][1], TIMER_TRIGGER, 3, self.node, digest)

    def _label(self, style: str, rank: int, pattern: int, digest: tuple[Entry, ...]) -> None:
        begun = Message(
            TIMER_TRIGGER, rank, "GOSSIP", self.node, self.node, self.round_, pattern=pattern, style=style,
            initiator=self.node, digest=digest,
        )  # fmt: skip
        self._towards(begun, TIMER_TRIGGER, rank, set())

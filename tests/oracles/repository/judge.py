"""Judges a run of protocol repository from its calls, deliveries, statuses and messages alone.

`judged(history)` returns the violations. It reads no state of a node, and imports neither the protocol nor its audits.
Between two calls of the owner, a client's registration is known only if both calls are confirmed and cannot be lost,
see `Registrations`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

PAYLOADS = ("Message", "P2R-Retransmit", "R2S-Retransmit", "R2R-Retransmit")
TO_CLIENTS = ("Message", "R2S-Retransmit")
REQUESTS = ("R2P-NAK", "S2R-NAK", "R2R-NAK")
"""The message types that request a missing message; at the end of a run, no such message is sent."""
QUIET_ROUNDS = 60
Id = tuple[int, int]
"""The id of a publication: the publisher, and the number of the call at the publisher."""


class Call(NamedTuple):
    """A call of an application: its node, its number among the calls of the node, and its arguments."""

    node: int
    seq: int
    kind: str
    topic: str
    of: Mapping[str, Any]


class Crash(NamedTuple):
    """A crash: a node is down from round ``begin`` to round ``end``; None means that it does not recover."""

    node: int
    begin: int
    end: int | None


@dataclass
class History:
    """An observed run.

    Attributes:
        roles: The role of each node: broker, repository or client.
        topics: The topics with an owner: ``owner``, ``publishers``, ``subscribers``, as ids of nodes.
        calls: The calls, in the order of their numbers at each node.
        crashes: The crashes.
        issued: The round in which each call was issued, by node and number; calls at a node that is down are missing.
        confirmed: The round in which each call was confirmed.
        delivered: Round, subscriber and publication of each delivery, in order.
        statuses: Round, node and status of each change.
        messages: Messages on links, in any order: kind, due round, fate, receiver and content.
        last_round: The last round.
        silence_rounds: The number of rounds after which a silent repository counts as down.
    """

    roles: Mapping[int, str]
    topics: Mapping[str, Mapping[str, Any]]
    calls: Sequence[Call]
    crashes: Sequence[Crash]
    issued: Mapping[Id, int]
    confirmed: Mapping[Id, int]
    delivered: Sequence[tuple[int, int, Id]]
    statuses: Sequence[tuple[int, int, str]]
    messages: Sequence[Any]
    last_round: int
    silence_rounds: int = 100
    found: list[str] = field(default_factory=list)


def judged(history: History) -> list[str]:
    """Returns the violations of a run."""
    judge = _Judge(history)
    for check in (
        judge.once, judge.asked, judge.publisher_order, judge.same_order, judge.complete, judge.authorised,
        judge.confirmed, judge.repositories, judge.quiet,
    ):  # fmt: skip
        history.found += [f"{check.__name__}: {one}" for one in check()]
    return history.found


class _Judge:
    def __init__(self, of: History) -> None:
        self.of = of
        self.call = {(one.node, one.seq): one for one in of.calls}
        self.crashes: dict[int, list[Crash]] = defaultdict(list)
        for crash in of.crashes:
            self.crashes[crash.node].append(crash)
        self.repositories_ = [node for node, role in of.roles.items() if role == "repository"]
        removals = (one for one in of.calls if one.kind == "remove" and (one.node, one.seq) in of.issued)
        self.removed = {one.of["peer"] for one in removals}
        self.gone = {one.node for one in of.crashes if one.end is None} | self.removed
        self.first: dict[tuple[int, Id], int] = {}
        for round_, client, one in of.delivered:
            self.first.setdefault((client, one), round_)
        self.publications = {
            (one.node, one.seq): one for one in of.calls if one.kind == "publish" and (one.node, one.seq) in of.issued
        }
        self.subscriptions = {one.of["subscription_id"]: one for one in of.calls if one.kind == "subscribe"}
        self.ends = {one.of["subscription_id"]: one for one in of.calls if one.kind == "unsubscribe"}
        self.reached = self._reached()
        self._cut_off: dict[int, bool] = {}

    def _reached(self) -> dict[Id, dict[int, int]]:
        """Maps each publication and repository to the round in which the first copy arrived there."""
        found: dict[Id, dict[int, int]] = defaultdict(dict)
        for one in self.of.messages:
            if one.kind not in PAYLOADS or one.fate != "delivered" or self.of.roles[one.dst] != "repository":
                continue
            copies = (
                [copy.publication for copy in one.message.copies] if hasattr(one.message, "copies") else [one.message]
            )
            for copy in copies:
                at = found[copy.source, copy.source_seq]
                at[one.dst] = min(at.get(one.dst, one.due_round), one.due_round)
        return found

    def up(self, node: int, begin: int, end: int | None = None) -> bool:
        """Returns whether a node is up in all rounds from ``begin`` to ``end``; None stands for the end of the run."""
        last = self.of.last_round if end is None else end
        return all(c.begin > last or (c.end is not None and c.end <= begin) for c in self.crashes[node])

    def is_cut_off(self, end: int) -> bool:
        """Returns whether, in the `silence_rounds` before ``end``, all messages between two repositories were lost."""
        if end not in self._cut_off:
            begin, pairs = end - self.of.silence_rounds, {True: set[tuple[int, int]](), False: set[tuple[int, int]]()}
            for one, is_sent, round_, pair in self._between_repositories():
                if begin < round_ <= end and (is_sent or one.fate == "delivered"):
                    pairs[is_sent].add(pair)
            self._cut_off[end] = not pairs[True] <= pairs[False]
        return self._cut_off[end]

    def _between_repositories(self) -> Iterator[tuple[Any, bool, int, tuple[int, int]]]:
        """Yields each message between two repositories twice: at its origin and at its final receiver.

        Each tuple contains the message, whether it is at its origin, the round of sending or the due round, and the two
        repositories.
        """
        for one in self.of.messages:
            origin = one.message.origin
            for other in {*one.message.to} & {*self.repositories_} if origin in self.repositories_ else ():
                if one.src == origin:
                    yield one, True, one.sent_round, (origin, other)
                if one.dst == other:
                    yield one, False, one.due_round, (origin, other)

    def once(self) -> Iterator[str]:
        """Checks that no client delivers a publication twice (section 3.5)."""
        seen = set()
        for round_, client, one in self.of.delivered:
            if (client, one) in seen:
                yield f"{client} delivers {one} again in round {round_}"
            seen.add((client, one))

    def asked(self) -> Iterator[str]:
        """Checks that each delivered publication matches a current subscription of the client (section 3.7)."""
        for round_, client, one in self.of.delivered:
            ids = [
                sid
                for sid in self.call[one].of["matches"]
                if self.subscriptions[sid].node == client
                and self.of.issued.get((client, self.subscriptions[sid].seq), round_ + 1) <= round_
            ]
            if not any(self._end_of(sid, confirmed=True) >= round_ for sid in ids):
                yield f"{client} delivers {one} in round {round_}, and subscribes to nothing like it"

    def _end_of(self, sid: int, *, confirmed: bool) -> int:
        """Returns the round in which the end of a subscription is issued or confirmed; a late round if never."""
        end = self.ends.get(sid)
        rounds = self.of.confirmed if confirmed else self.of.issued
        return rounds.get((end.node, end.seq), 1 << 60) if end is not None else 1 << 60

    def publisher_order(self) -> Iterator[str]:
        """Checks that clients deliver the publications of a publisher on a topic in the order of calls (section 3.4).

        Publications before and after a recovery of the publisher are not compared.
        """
        newest: dict[tuple[int, int, str, int], int] = {}
        for round_, client, (source, seq) in self.of.delivered:
            issued = self.of.issued[source, seq]
            life = sum(c.end is not None and c.end <= issued for c in self.crashes[source])
            index = client, source, self.call[source, seq].topic, life
            if seq < newest.get(index, 0):
                yield f"{client} delivers {(source, seq)} in round {round_} after {newest[index]}"
            newest[index] = max(seq, newest.get(index, 0))

    def same_order(self) -> Iterator[str]:
        """Checks that clients that always had one repository deliver publications in one order (section 3.5)."""
        steering: dict[tuple[int, str], set[tuple[int, int]]] = defaultdict(set)
        for one in self.of.messages:
            if one.kind == "S2R-Recovery" and one.src == one.message.origin:
                steering[one.src, one.message.topic].add((one.message.designation, one.message.steering))
        orders: dict[tuple[str, int], list[tuple[int, dict[Id, int]]]] = defaultdict(list)
        for (client, topic), chosen in sorted(steering.items()):
            repositories = {repository for _, repository in chosen}
            if len(repositories) > 1 or self.crashes[client] or self.crashes[next(iter(repositories))]:
                continue
            if any(one.kind == "register" and one.topic == topic for one in self.of.calls):
                continue  # a message that was stored without a registration is delivered later, with its old number
            mine = [one for _, who, one in self.of.delivered if who == client and self.call[one].topic == topic]
            orders[topic, next(iter(repositories))].append((client, {one: place for place, one in enumerate(mine)}))
        for (topic, repository), of_clients in orders.items():
            for index, (a, first) in enumerate(of_clients):
                for b, second in of_clients[index + 1 :]:
                    both = sorted(first.keys() & second.keys(), key=first.__getitem__)
                    if any(second[x] > second[y] for x, y in pairwise(both)):
                        yield f"{a} and {b} deliver {topic} in two orders, and {repository} steers both"

    def complete(self) -> Iterator[str]:
        """Checks that each due delivery happens: to all registered subscribers or to none (sections 3.6, 3.8)."""
        for one, call in self.publications.items():
            wanted = {self.subscriptions[sid].node for sid in call.of["matches"]}
            rounds = [self.first[client, one] for client in wanted if (client, one) in self.first]
            why = self._must_come(one, call, min(rounds, default=None))
            if why is None:
                continue
            for client in sorted(wanted):
                if (client, one) not in self.first and self._is_owed(client, one, call, min(rounds, default=None)):
                    yield f"{client} lacks {one} of {call.topic}, issued in round {self.of.issued[one]}: {why}"

    def _must_come(self, one: Id, call: Call, delivered: int | None) -> str | None:
        """Returns why a publication must be delivered to all subscribers; None if it may be lost with its publisher."""
        source, issued = one[0], self.of.issued[one]
        stays = self.up(source, issued)
        has_lost_holder = any(
            not self.up(node, round_) and node in self.gone for node, round_ in self.reached[one].items()
        )
        publisher = Registrations(self, call.topic, source, "publisher")
        if stays and publisher.lasts(issued, or_comes_back=True):
            return "its publisher is up and registered"
        if has_lost_holder:
            return None
        if delivered is not None:
            return f"delivered to others in round {delivered}"
        return "confirmed to its publisher" if one in self.of.confirmed else None

    def _is_owed(self, client: int, one: Id, call: Call, delivered: int | None) -> bool:
        """Returns whether a client is up at the end, is registered since the issue, and had subscribed before it."""
        issued = self.of.issued[one]
        registration = Registrations(self, call.topic, client, "subscriber")
        if not self.up(client, self.of.last_round) or not registration.lasts(issued):
            return False
        for sid in call.of["matches"]:
            subscription = self.subscriptions[sid]
            since = self.of.confirmed.get((subscription.node, subscription.seq))
            if subscription.node == client and since is not None and since < issued and sid not in self.ends:
                return True
        return False

    def authorised(self) -> Iterator[str]:
        """Checks that unregistered clients neither publish nor receive a publication or a copy (sections 3.3, 3.7)."""
        for round_, client, one in self.of.delivered:
            topic, issued = self.call[one].topic, self.of.issued[one]
            for node, role in ((client, "subscriber"), (one[0], "publisher")):
                registration = Registrations(self, topic, node, role)
                if not registration.may_ever(round_):
                    yield f"{client} delivers {one} in round {round_}; {node} was never registered as {role}"
                elif registration.is_out(issued, round_):
                    yield f"{client} delivers {one} in round {round_}; {node} was deregistered as {role} before"
        strangers = set()
        for one in self.of.messages:
            if one.kind not in TO_CLIENTS:
                continue
            for node in one.message.to:
                registration = Registrations(self, one.message.topic, node, "subscriber")
                if self.of.roles[node] == "client" and not registration.may_ever(one.sent_round):
                    strangers.add((one.message.topic, node, one.kind))
        yield from (f"{kind} of {topic} for {node}, never registered" for topic, node, kind in sorted(strangers))

    def confirmed(self) -> Iterator[str]:
        """Checks that the calls of nodes that do not fail are confirmed (sections 3.3, 3.6, 3.11)."""
        for call in self.of.calls:
            index = call.node, call.seq
            issued = self.of.issued.get(index)
            if issued is None or index in self.of.confirmed:
                continue
            stays = self.up(call.node, issued)
            rules = self.of.topics.get(call.topic)
            if call.kind == "subscribe" and self.up(call.node, self.of.last_round):
                role, is_due = "subscriber", call.of["subscription_id"] not in self.ends
            elif call.kind == "publish":
                role, is_due = "publisher", stays
            elif call.kind in ("register", "deregister"):
                later = [one for one in self._actions(call) if one.seq > call.seq]
                role, is_due = "", stays and not later and rules is not None and call.node == rules["owner"]
            else:
                continue
            registration = Registrations(self, call.topic, call.node, role)
            if is_due and (not role or registration.lasts(issued, or_comes_back=True)):
                yield f"{call.kind} {call.seq} at {call.node}, issued in round {issued}, is never confirmed"

    def _actions(self, call: Call) -> list[Call]:
        return [
            one
            for one in self.of.calls
            if one.kind in ("register", "deregister")
            and (one.topic, one.of["peer"], one.of["role"]) == (call.topic, call.of["peer"], call.of["role"])
        ]

    def repositories(self) -> Iterator[str]:
        """Checks that live repositories become operational, and that leaving ones leave (sections 4.8 to 4.10)."""
        joined, left = ({one.node for one in self.of.calls if one.kind == kind} for kind in ("join", "leave"))
        last = {node: status for _, node, status in self.of.statuses}
        for node in self.repositories_:
            left_ = (node in left) and any(
                (one.node, one.seq) in self.of.issued
                for one in self.of.calls
                if one.node == node and one.kind == "leave"
            )
            if not self.up(node, self.of.last_round):
                continue
            if node in self.removed and last.get(node) != "LEFT":
                yield f"{node} was removed, and is {last.get(node)} in the end"
            if left_ and last.get(node) != "LEFT" and self._is_followed(node, left):
                yield f"{node} leaves, and is {last.get(node)} in the end"
            if not left_ and last.get(node, "OPERATIONAL") != "OPERATIONAL" and node not in {*joined, *self.removed}:
                yield f"{node} is {last[node]} in the end"

    def _is_followed(self, leaver: int, left: set[int]) -> bool:
        return any(node not in left and node not in self.gone for node in self.repositories_ if node != leaver)

    def quiet(self) -> Iterator[str]:
        """Checks that no node requests a missing message at the end: it is delivered, or void (sections 3.5, 4.8)."""
        found: dict[tuple[str, int], int] = defaultdict(int)
        for one in self.of.messages:
            if (
                one.kind in REQUESTS
                and one.sent_round > self.of.last_round - QUIET_ROUNDS
                and one.src == one.message.origin
            ):
                found[one.kind, one.src] += 1
        for (kind, node), n in sorted(found.items()):
            yield f"{node} still sends {kind}, {n} in the last {QUIET_ROUNDS} rounds"


class Registrations:
    """The known registrations of a client for a topic in a role, from the scenario and the calls of the owner.

    A call takes effect at its confirmation; between its issue and its confirmation, the registration is unknown. If a
    call is confirmed while a repository is down or cut off from another one, the call may be lost with the repositories
    that stored it; then the registration is unknown from the issue of the call.
    """

    def __init__(self, judge: _Judge, topic: str, client: int, role: str) -> None:
        self._judge, of = judge, judge.of
        rules = of.topics.get(topic)
        self._is_open = rules is None
        self._is_listed = rules is not None and bool(role) and client in rules[f"{role}s"]
        self._actions = [
            one
            for one in of.calls
            if one.kind in ("register", "deregister") and rules is not None and one.node == rules["owner"]
            and (one.topic, one.of["peer"], one.of["role"]) == (topic, client, role)
            and (one.node, one.seq) in of.issued
        ]  # fmt: skip
        self._actions.sort(key=lambda one: one.seq)

    def may_ever(self, round_: int) -> bool:
        """Returns whether the client may have been registered in or before a round."""
        issued = self._judge.of.issued
        registers = (one for one in self._actions if one.kind == "register" and issued[one.node, one.seq] <= round_)
        return self._is_open or self._is_listed or any(True for _ in registers)

    def lasts(self, begin: int, *, or_comes_back: bool = False) -> bool:
        """Returns whether the client is certainly registered from a round to the end.

        Args:
            begin: The round.
            or_comes_back: Whether it is sufficient that the client is registered at the end.
        """
        if self._is_open or not self._actions:
            return self._is_open or self._is_listed
        last = self._actions[-1]
        if last.kind != "register" or not self._is_certain(last):
            return False
        return or_comes_back or self._judge.of.confirmed[last.node, last.seq] < begin

    def is_out(self, issued: int, used: int) -> bool:
        """Returns whether the client was certainly deregistered before ``issued`` and not registered up to ``used``."""
        of = self._judge.of
        known = [one for one in self._actions if of.issued[one.node, one.seq] <= used]
        if self._is_open or not known or known[-1].kind != "deregister":
            return False
        last = known[-1]
        return self._is_certain(last) and of.confirmed[last.node, last.seq] < issued

    def _is_certain(self, one: Call) -> bool:
        """Returns whether a call is confirmed, and no repository was down or cut off from its issue to its Conf."""
        index, judge = (one.node, one.seq), self._judge
        if index not in judge.of.confirmed:
            return False
        begin, end = judge.of.issued[index], judge.of.confirmed[index]
        return all(judge.up(node, begin, end) for node in judge.repositories_) and not judge.is_cut_off(end)

"""The network of dispatchers: rounds, links and crashes. The caller passes the messages that links lose."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from oracles.epidemic import draws
from oracles.epidemic.content import matching
from oracles.epidemic.dispatcher import Delivery, Dispatcher
from oracles.epidemic.messages import Message
from pipelines.contract.run_inputs import Inputs
from pipelines.scenario.load import RunConfig

Fate = tuple[Any, ...]


@dataclass
class Story:
    """The history of a run: deliveries, and messages with their fates; and the final caches and losses of nodes."""

    deliveries: list[Delivery] = field(default_factory=list)
    messages: list[tuple[Any, ...]] = field(default_factory=list)
    caches: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    lost: dict[int, set[tuple[int, int, int]]] = field(default_factory=dict)


def play(run: RunConfig, inputs: Inputs, lost: Counter[Fate], last_round: int) -> Story:
    """Plays a run.

    Args:
        run: The run.
        inputs: The inputs of the job that contains the run.
        lost: The messages that links lose, as `Message.what`.
        last_round: The last round.
    """
    return _Network(run, inputs, lost).play(last_round)


class _Network:
    def __init__(self, run: RunConfig, inputs: Inputs, lost: Counter[Fate]) -> None:
        self.run, self.lost = run, lost
        self.settings = run.scenario.protocol
        rows = {
            name: _rows(getattr(inputs, name), run.run_id) for name in ("node", "link", "call", "crash", "replacement")
        }
        self.latency = {(row["src"], row["dst"]): row["latency_rounds"] for row in rows["link"]}
        self.swaps = rows["replacement"]
        self.calls = defaultdict(list)
        for row in sorted(rows["call"], key=lambda row: row["source_seq"]):
            self.calls[row["round"], row["node_id"]].append(row)
        self.first = min((row["round"] for row in rows["call"] if row["kind"] == "publish"), default=None)
        self.patterns, self.matches = matching(inputs, run.run_id)
        self.down = [(row["node_id"], row["round"], row["end_round"]) for row in rows["crash"]]
        self.nodes = {
            row["node_id"]: Dispatcher(
                row["node_id"], [b for a, b in self.latency if a == row["node_id"]], self.settings, run.seed
            )
            for row in rows["node"]
        }
        for row in self.swaps:
            for ends in ((row["a"], row["b"]), (row["b"], row["a"])):
                self.latency[ends] = row["latency_rounds"]
        self.due: dict[int, list[Message]] = defaultdict(list)
        self.story = Story()

    def is_down(self, node: int, round_: int) -> bool:
        return any(n == node and start <= round_ and (end is None or round_ < end) for n, start, end in self.down)

    def play(self, last_round: int) -> Story:
        for round_ in range(last_round + 1):
            returned = {node for node, _, until in self.down if until == round_}
            for node, start, _ in self.down:
                if start == round_:
                    self.nodes[node].crash()
            gone, come = self._replaced(round_)
            inbox = self._inbox(round_)
            for node in self.nodes.values():
                if not self.is_down(node.node, round_):
                    self._play_node(node, round_, inbox[node.node], returned, gone[node.node], come[node.node])
                else:
                    node.relink(gone[node.node], come[node.node])
            self._take_sent([node for node in self.nodes.values() if not self.is_down(node.node, round_)])
        for message in (message for rest in self.due.values() for message in rest):
            self.story.messages.append((*message.what, "in_flight"))
        self.story.caches = {n: {e.key for e in node.cache.events()} for n, node in self.nodes.items()}
        self.story.lost = {n: set(node.lost) for n, node in self.nodes.items()}
        return self.story

    def _inbox(self, round_: int) -> Mapping[int, list[Message]]:
        inbox: dict[int, list[Message]] = defaultdict(list)
        for message in sorted(self.due.pop(round_, []), key=lambda message: message.message_id):
            if message.what in self.lost:
                self.story.messages.append((*message.what, "lost_link"))
            elif self.is_down(message.dst, round_):
                self.story.messages.append((*message.what, "lost_crash"))
            elif message.kind in ("REQUEST", "REPLY") and self._is_lost_by_unicast(message, round_):
                self.story.messages.append((*message.what, "lost_link"))
            else:
                inbox[message.dst].append(message)
        return inbox

    def _is_lost_by_unicast(self, message: Message, round_: int) -> bool:
        source, seq = message.event.key if message.event else (-1, -1)
        drawn = draws.uniform(self.run.seed, "epidemic.unicast", message.src, message.dst, round_, source, seq)
        return drawn < self.settings.out_of_band_loss

    def _replaced(self, round_: int) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
        """Returns, for each node, the neighbours that it loses and the neighbours that it gets in a round."""
        gone: dict[int, set[int]] = defaultdict(set)
        come: dict[int, set[int]] = defaultdict(set)
        for row in (row for row in self.swaps if row["round"] == round_):
            for found, (a, b) in ((gone, (row["old_a"], row["old_b"])), (come, (row["a"], row["b"]))):
                found[a].add(b)
                found[b].add(a)
        return gone, come

    def _play_node(
        self, node: Dispatcher, round_: int, inbox: list[Message], returned: set[int], gone: set[int], come: set[int]
    ) -> None:
        node.begin(round_)
        node.relink(gone, come)
        calls = self.calls[round_, node.node]
        for message in (message for message in inbox if message.kind in ("SUB", "UNSUB")):
            node.hear(message)
        for call in calls:
            self._subscribe(node, call)
        node.tell(returned)
        for message in (message for message in inbox if message.kind in ("EVENT", "REPLY")):
            node.take(message)
        for call in (call for call in calls if call["kind"] == "publish"):
            node.publish(call["source_seq"], self.matches[node.node, call["source_seq"]])
        node.settle()
        for message in inbox:
            if message.kind == "GOSSIP":
                node.gossip(message)
            elif message.kind == "REQUEST":
                node.request(message)
        node.timer()
        dropped = {message.message_id for message in node.dropped}
        for message in inbox:
            self.story.messages.append((*message.what, "duplicate" if message.message_id in dropped else "delivered"))

    def _subscribe(self, node: Dispatcher, call: dict[str, Any]) -> None:
        subscription = call["subscription_id"]
        if call["kind"] == "subscribe":
            is_initial = self.first is None or call["round"] < self.first
            node.subscribe(subscription, self.patterns[subscription], is_initial)
        elif call["kind"] == "unsubscribe" and subscription in node.clients:
            node.unsubscribe(subscription)

    def _take_sent(self, nodes: Sequence[Dispatcher]) -> None:
        """Numbers the messages of a round in the order of senders, and puts them on the links."""
        self.story.deliveries += [delivery for node in nodes for delivery in node.delivered]
        sent = [message for node in nodes for message in node.sent]
        for number, message in enumerate(sorted(sent, key=lambda message: (message.src, message.order)), start=1):
            latency = message.latency or self.latency[message.src, message.dst]
            message_id = (message.sent_round << 40) + number
            self.due[message.sent_round + latency].append(replace(message, message_id=message_id))


def _rows(table: Any, run_id: int) -> list[dict[str, Any]]:
    return [row for row in table.to_pylist() if row["run_id"] == run_id]

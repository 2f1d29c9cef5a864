"""Compares the skip ring's node program with its plain program, the oracle, in random runs."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import fields, is_dataclass, replace
from typing import Any

from oracles.skipring.moment import BEFORE, Message, Publication
from oracles.skipring.network import DOWN, Call, Crash, Network, Setup, Start, responsible
from oracles.skipring.ring import Edge, Ring
from oracles.skipring.supervisor import Database
from oracles.skipring.trie import publication_key

from support.skipring import SETTINGS
from udfs.nodes.local import LocalNetwork
from udfs.nodes.world import Flight, NodeInfo
from udfs.skipring.labels import Label
from udfs.skipring.program import SkipRing
from udfs.skipring.start import CORRUPTIONS
from udfs.skipring.state import Neighbour
from udfs.skipring.trie import TrieNode, repair_tries

STARTS = ("empty", "legitimate", *CORRUPTIONS, "arbitrary", "arbitrary", "arbitrary")
N_INTERVALS = 18


class DisagreementError(AssertionError):
    """The node program and the plain program differ."""


def drawn(seed: int) -> Setup:
    """Returns a random small setup in which subscribers join, leave, rejoin, publish, crash and recover."""
    draw = random.Random(seed)
    interval = draw.randint(3, 8)
    n, topics = draw.randint(2, 12), [f"topic{number}" for number in range(draw.choice((1, 1, 2, 3)))]
    nodes, end = list(range(1, n + draw.randint(0, 2) + 1)), N_INTERVALS * interval
    settings = {
        **SETTINGS, "seed": seed, "start": STARTS[seed % len(STARTS)], "start_until": 0,
        "timeout_interval": interval, "min_delay": draw.choice((1, 1, 3)), "max_delay": draw.randint(3, 2 * interval),
        "silence_intervals": draw.randint(2, 8), "key_bits": draw.choice((8, 16)), "hash_bits": 32,
        "max_label_bits": draw.choice((4, 8, 20)), "start_publications": draw.randint(0, 4),
    }  # fmt: skip
    wanted = [(node, 0, "subscribe", topic) for node in nodes[:n] for topic in topics if draw.random() < 0.9]
    wanted += [
        (node, draw.randrange(end), draw.choice(("subscribe", "unsubscribe")), draw.choice(topics))
        for node in draw.sample(nodes, draw.randint(0, len(nodes) // 2))
    ]
    wanted += [
        (draw.choice(nodes), draw.randrange(end), "publish", draw.choice(topics)) for _ in range(draw.randint(0, 6))
    ]
    crashes = [
        Crash(node, at := draw.randrange(end // 2), at + draw.randint(1, end // 2) if draw.random() < 0.3 else None)
        for node in draw.sample(nodes, draw.choice((0, 0, 1, n // 3)))
    ]
    return Setup(
        {-one: f"supervisor{one}" for one in range(1, draw.choice((1, 1, 2, 3)) + 1)}, nodes, settings,
        numbered(wanted), crashes,
    )  # fmt: skip


def numbered(wanted: list[tuple[int, int, str, str]]) -> list[Call]:
    """Returns numbered calls; an unsubscribe ends the node's first subscription to the topic."""
    calls: list[Call] = []
    first: dict[tuple[int, str], int] = {}
    counts: dict[int, int] = defaultdict(int)
    for place, (node, round_, kind, topic) in enumerate(wanted, 1):
        counts[node] += 1
        subscription = None if kind == "publish" else first.setdefault((node, topic), place)
        calls.append(Call(node, round_, counts[node], kind, topic, subscription if kind == "unsubscribe" else place))
    return calls


# ---- the run of the node program, and its initial state in the form of the plain program


def network(setup: Setup) -> LocalNetwork:
    """Returns the network of the node program."""
    nodes = [NodeInfo(node, name, "supervisor") for node, name in setup.supervisors.items()]
    nodes += [NodeInfo(node, f"node{node}", "subscriber") for node in setup.subscribers]
    made = LocalNetwork(SkipRing, nodes=nodes, settings=setup.settings)
    for call in setup.calls:
        given = {} if call.kind == "publish" else {"subscription_id": call.subscription}
        made.call(call.node, call.kind, call.round, topic=call.topic, **given)
    for crash in setup.crashes:
        made.crash(*crash)
    return made


def start_of(setup: Setup, played: LocalNetwork) -> Start:
    """Returns the initial state in the form of the plain program; a legitimate ring is its subscribers by label."""
    start, up = Start(), played.up
    numbers: dict[int, int] = defaultdict(int)
    for one in played.in_flight:
        start.messages.append(message(one, numbers[one.src]))
        numbers[one.src] += 1
    for node in up:
        start.interests[node] = {number: one.topic for number, one in up[node].interest.items()}
        for leaf in up[node].trie_node.values():
            if leaf.publication is not None and _has_right_key(setup, leaf):
                start.publications.setdefault((node, leaf.topic), []).append(Publication(*plain(leaf.publication)))
    is_legitimate = setup.settings["start"] in ("legitimate", "tries")
    start.crashed = {node: {*up[node].crashed} for node in setup.supervisors}
    databases = [(node, topic, one) for node in up for topic, one in up[node].database.items()]
    for node, topic, one in databases:
        if is_legitimate:
            start.orders[topic] = [one.entries[label] for label in sorted(one.entries)]
        else:
            start.databases[node, topic] = Database(_digits(one.entries), one.next)
    if not is_legitimate:
        start.rings = [ring(setup, node, own) for node in up for own in up[node].subscription.values()]
    return start


def _has_right_key(setup: Setup, leaf: TrieNode) -> bool:
    """Returns whether a leaf's publication has the right key; the repair of a trie removes all other leaves (K22)."""
    one = leaf.publication
    assert one is not None
    return one.key == publication_key(leaf.topic, one.source, one.source_seq, setup.settings["key_bits"])


def ring(setup: Setup, node: int, own: Any) -> Ring:
    """Returns a subscriber's state of a ring in the form of the plain program."""
    left, right, end = (None if one is None else edge(one) for one in (own.left, own.right, own.ring))
    short = {str(label): held for label, held in own.short.items()}
    return Ring(own.topic, node, responsible(own.topic, setup.supervisors), plain(own.label), left, right, end, short)


def edge(one: Neighbour) -> Edge:
    return Edge(one.node, str(one.label), one.silent)


def plain(value: Any) -> Any:
    """Returns a value of the node program in the form of the plain program: labels as digits, records as tuples."""
    if isinstance(value, Label):
        return str(value)
    if is_dataclass(value):
        return tuple(plain(getattr(value, one.name)) for one in fields(value))
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def message(one: Flight, number: int) -> Message:
    return Message(one.sent_round, one.src, number, one.kind, one.dst, one.due_round, plain(one.message))


# ---- the comparison


def compare(setup: Setup) -> tuple[LocalNetwork, Network]:
    """Plays a setup with both programs, and compares their states at the start and after each round.

    Raises:
        DisagreementError: The programs differ.
    """
    played = network(setup)
    other = Network(setup, start_of(setup, played))
    _agree(setup, BEFORE, _program_state(setup, played), _plain_state(other))
    for round_ in range(N_INTERVALS * setup.settings["timeout_interval"]):
        rows = played.play(round_)
        other.play(round_)
        new = [one for one in played.in_flight if one.sent_round == round_]
        delivered = sorted((node, *one) for node, _, one in rows.delivered)
        _agree(setup, round_, {"messages": _by_sender(new)}, {"messages": _by_sender(other.sent)})
        _agree(setup, round_, {"deliveries": delivered}, {"deliveries": sorted(map(tuple, other.delivered))})
        _agree(setup, round_, _program_state(setup, played), _plain_state(other))
    return played, other


def _by_sender(messages: Any) -> dict[Any, list[Any]]:
    """Groups the messages of a round by sender, in the order of sending; failure reports have separate groups."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for one in messages:
        body = plain(one.message) if isinstance(one, Flight) else one.body
        found[one.src, one.kind == DOWN].append((one.kind, one.dst, one.due_round, body))
    return found


def _agree(setup: Setup, round_: int, program: dict[Any, Any], other: dict[Any, Any]) -> None:
    if program == other:
        return
    where = f"seed {setup.settings['seed']}, start {setup.settings['start']}, round {round_}"
    raise DisagreementError("\n".join([where, *_differing("", program, other)]))


def _differing(path: str, program: Any, other: Any) -> list[str]:
    """Returns lines with the path and both values of each part in which two values differ."""
    if program == other:
        return []
    if not isinstance(program, dict) or not isinstance(other, dict):
        return [f"{path}:", f"  program {program}", f"  plain   {other}"]
    keys = dict.fromkeys([*program, *other])
    return [line for key in keys for line in _differing(f"{path} {key}", program.get(key), other.get(key))]


def _program_state(setup: Setup, played: LocalNetwork) -> dict[Any, Any]:
    """Returns databases, rings and tries of all nodes that are up, in the form of `_plain_state`."""
    found: dict[Any, Any] = {}
    for node, program in played.up.items():
        databases = {topic: (one.next, _digits(one.entries)) for topic, one in program.database.items()}
        found[node] = {"databases": databases, "crashed": set(program.crashed)}
        for topic, own in program.subscription.items():
            edges = {side: getattr(own, side) for side in ("left", "right", "ring")}
            found[node, topic] = {
                "wants": own.wants, "label": plain(own.label), "short": _digits(own.short),
                **{side: one and (one.node, str(one.label), one.silent) for side, one in edges.items()},
            }  # fmt: skip
        for (topic, label), one in _tries(setup, program).items():
            trie = found.setdefault((node, topic, "trie"), {})
            trie[label] = (one.hash, plain(one.publication))
    return {key: value for key, value in found.items() if value != _NOTHING}


def _tries(setup: Setup, program: SkipRing) -> dict[tuple[str, str], TrieNode]:
    """Returns the trie nodes of a node; if the node has not used its tries yet, repairs a copy of them first (K22)."""
    nodes, roots = ({key: replace(one) for key, one in held.items()} for held in (program.trie_node, program.trie_root))
    if not program.has_checked_tries:
        repair_tries(nodes, roots, setup.settings["key_bits"], setup.settings["hash_bits"])
    return nodes


def _plain_state(other: Network) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for node, supervisor in other.supervisors.items():
        databases = {topic: (one.next, one.entries) for topic, one in supervisor.databases.items()}
        found[node] = {"databases": databases, "crashed": supervisor.crashed}
    for node, subscriber in other.subscribers.items():
        for topic, own in subscriber.rings.items():
            edges = {side: getattr(own, side) for side in ("left", "right", "ring")}
            found[node, topic] = {
                "wants": subscriber.wants(topic), "label": own.label, "short": own.short,
                **{side: one and (one.node, one.label, one.silent) for side, one in edges.items()},
            }  # fmt: skip
        for topic, trie in subscriber.tries.items():
            if trie.held:
                found[node, topic, "trie"] = {
                    label: (one.hash, trie.held.get(label)) for label, one in trie.nodes.items()
                }
    return {key: value for key, value in found.items() if value != _NOTHING}


_NOTHING = {"wants": False, "label": None, "short": {}, "left": None, "right": None, "ring": None}


def _digits(labels: dict[Label, int | None]) -> dict[str, int | None]:
    return {str(label): node for label, node in labels.items()}

"""Creates fault schedules: aimed at messages of an earlier run, random, or all schedules of a few crashes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations, product
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from pipelines.contract.run_inputs import Overlay, Workload

Fault = Mapping[str, Any]
_MOST_SYMMETRIES = 10_000
_LONG = 6
"""The duration of a long outage, as a multiple of the detection time of a crash."""


class Target(NamedTuple):
    """A message of an earlier run that the faults of a schedule target.

    ``status`` is the status of the receiver in the due round. ``position`` is the position (first, middle or last) of
    the message among the messages with its kind and receiver status. ``nth`` is the index, from 1, of the message among
    the messages with its kind, sender, receiver and round of sending.
    """

    kind: str
    status: str
    position: str
    src: str
    dst: str
    sent_round: int
    due_round: int
    nth: int = 1


@dataclass(frozen=True)
class Schedule:
    """Faults that a hunt adds to the faults of the scenario.

    ``aims`` describes each aim: its target and its form. ``form`` is the form of the last aim, a key of `FORMS`. A
    schedule without a target has form ``random``, ``exhaustive`` or ``seed``. If ``seed`` is ``None``, the run uses the
    seed of the scenario.
    """

    faults: tuple[Fault, ...]
    aims: tuple[str, ...]
    form: str
    seed: int | None = None

    @property
    def key(self) -> str:
        """A string that identifies the seed and the set of faults."""
        return json.dumps([self.seed, sorted(json.dumps(fault, sort_keys=True) for fault in self.faults)])

    def also(self, other: Schedule) -> Schedule:
        """Returns a schedule with the faults and aims of this schedule, followed by the faults and aims of ``other``.

        The result has the seed of this schedule and the form of ``other``.
        """
        return Schedule((*self.faults, *other.faults), (*self.aims, *other.aims), other.form, self.seed)


@dataclass(frozen=True)
class Surroundings:
    """The properties of a scenario, besides its messages, on which aimed schedules depend.

    Attributes:
        neighbours: The names of the neighbours of each node in the overlay, by name of the node.
        detection_rounds: The detection time, the number of rounds until a crash is detected.
        has_nth: Whether a fault can affect a single message. Protocols without a node program do not support this.
    """

    neighbours: Mapping[str, Sequence[str]]
    detection_rounds: int
    has_nth: bool = True

    @cached_property
    def downs(self) -> tuple[int | None, ...]:
        """The durations of outages in rounds. None stands for a permanent outage.

        The durations are: the detection time plus one, permanent, one, the detection time minus one, and `_LONG` times
        the detection time.
        """
        detection = self.detection_rounds
        return tuple(dict.fromkeys((detection + 1, None, 1, max(1, detection - 1), _LONG * detection)))


Form = Callable[[Target, Surroundings], list[Fault] | None]


def _crash(node: str, round_: int, down: int | None) -> Fault:
    return {"kind": "crash", "node": node, "round": max(round_, 0)} | (
        {} if down is None else {"until": max(round_, 0) + down}
    )


def _end(who: str, target: Target) -> tuple[str, int]:
    """Returns the target's receiver and due round, or, if ``who`` is ``sender``, its sender and round of sending."""
    return (target.dst, target.due_round) if who == "receiver" else (target.src, target.sent_round)


def _crashing(who: str, shift: int, outage: int, target: Target, around: Surroundings) -> list[Fault] | None:
    node, round_ = _end(who, target)
    return [_crash(node, round_ + shift, around.downs[outage])] if outage < len(around.downs) else None


def _pausing(who: str, shift: int, target: Target, around: Surroundings) -> list[Fault]:
    node, round_ = _end(who, target)
    first = max(round_ + shift, 0)
    return [{"kind": "pause", "node": node, "round": first, "until": first + around.detection_rounds + 1}]


def _struck(kind: str, target: Target, around: Surroundings, **of_kind: object) -> list[Fault]:
    """Returns a fault of ``kind`` that affects only the target.

    If `Surroundings.has_nth` is false, the fault affects all messages of the target's kind, link and round of sending.
    """
    which: Fault = {"from": target.src, "to": target.dst, "nth": target.nth}
    if not around.has_nth:
        linked = target.dst in around.neighbours.get(target.src, ())
        which = {"rate": 1.0, **({"links": [[target.src, target.dst]], "direction": "forward"} if linked else {})}
    when = {"round": target.sent_round, "until": target.sent_round + 1}
    return [{"kind": kind, "kinds": [target.kind], **which, **when, **of_kind}]


def _duplicated(target: Target, around: Surroundings) -> list[Fault]:
    return _struck("duplicate", target, around, after=[0, around.detection_rounds])


def _delayed(target: Target, around: Surroundings) -> list[Fault]:
    rounds = 2 * (target.due_round - target.sent_round) + around.detection_rounds
    return _struck("delay", target, around, rounds=[rounds, rounds], reorder=True)


def _recovering(who: str, shift: int, target: Target, around: Surroundings) -> list[Fault] | None:
    node, round_ = _end(who, target)
    first = round_ + shift - around.detection_rounds - 1
    return None if first < 0 else [_crash(node, first, around.detection_rounds + 1)]


def _both_ends(target: Target, around: Surroundings) -> list[Fault]:
    down = around.detection_rounds + 1
    return [_crash(node, target.due_round, down) for node in (target.src, target.dst)]


def _behind(target: Target, around: Surroundings) -> list[str]:
    """Returns the neighbours of the target's receiver, except the target's sender."""
    return [name for name in around.neighbours.get(target.dst, ()) if name != target.src]


def _chain(stagger: int, target: Target, around: Surroundings) -> list[Fault] | None:
    """Returns a crash of the target's receiver, and, ``stagger`` rounds later, a crash of one of its neighbours.

    The neighbour is not the target's sender. Returns None if the receiver has no other neighbour.
    """
    down, others = around.detection_rounds + 1, _behind(target, around)
    crashes = enumerate((target.dst, *others[:1]))
    return [_crash(node, target.due_round + stagger * n, down) for n, node in crashes] if others else None


def _neighbours(target: Target, around: Surroundings) -> list[Fault] | None:
    """Returns a crash of each neighbour of the target's receiver except the sender; None if no neighbour remains."""
    down = around.detection_rounds + 1
    return [_crash(node, target.due_round, down) for node in _behind(target, around)] or None


def _nearby(who: str, n_links: int, target: Target, around: Surroundings) -> list[Fault] | None:
    """Returns a crash of a node ``n_links`` links away from the target's sender or receiver, as ``who`` selects.

    The node is neither the sender nor the receiver. Returns None if no node has this distance.
    """
    node, round_ = _end(who, target)
    reached, found = {target.src, target.dst}, [node]
    for _ in range(n_links):
        further = dict.fromkeys(name for near in found for name in around.neighbours.get(near, ()))
        found = [name for name in further if name not in reached]
        reached |= {*found}
    return [_crash(name, round_, around.detection_rounds + 1) for name in found[:1]] or None


def _lost_for_a_while(target: Target, around: Surroundings, **which: object) -> list[Fault]:
    """Returns a loss of all messages that the fault fields ``which`` select.

    The loss begins when the target is sent, and lasts one round longer than the detection time.
    """
    when = {"round": target.sent_round, "until": target.sent_round + around.detection_rounds + 1}
    return [{"kind": "loss", "rate": 1.0, **when, **which}]


def _kind_lost(target: Target, around: Surroundings) -> list[Fault]:
    return _lost_for_a_while(target, around, kinds=[target.kind])


def _link_lost(target: Target, around: Surroundings) -> list[Fault] | None:
    """Returns a loss of all messages from the target's sender to its receiver; None if they have no link."""
    if target.dst not in around.neighbours.get(target.src, ()):
        return None
    return _lost_for_a_while(target, around, links=[[target.src, target.dst]], direction="forward")


def _forms() -> dict[str, Form]:
    shifts = {0: "then", -1: "a round before", 1: "a round after"}
    named: dict[str, Form] = {
        "receiver crashes then": partial(_crashing, "receiver", 0, 0),
        "lost": partial(_struck, "loss"),
        "sender crashes a round after": partial(_crashing, "sender", 1, 0),
        "receiver recovers then": partial(_recovering, "receiver", 0),
        "receiver crashes then, for good": partial(_crashing, "receiver", 0, 1),
        "duplicated": _duplicated,
        "delayed": _delayed,
        "receiver pauses then": partial(_pausing, "receiver", 0),
        "both ends crash": _both_ends,
        "receiver and a neighbour crash": partial(_chain, 0),
        "sender recovers then": partial(_recovering, "sender", 0),
        "neighbours of the receiver crash": _neighbours,
        "receiver crashes, a round later a neighbour": partial(_chain, 1),
    }
    outages = ("", ", for good", ", for a round", ", until before the detection", ", for long")
    for (index, outage), who, (shift, when) in product(enumerate(outages), ("receiver", "sender"), shifts.items()):
        named.setdefault(f"{who} crashes {when}{outage}", partial(_crashing, who, shift, index))
    for who, (shift, when) in product(("receiver", "sender"), shifts.items()):
        named.setdefault(f"{who} pauses {when}", partial(_pausing, who, shift))
        named.setdefault(f"{who} recovers {when}", partial(_recovering, who, shift))
    return {
        **named,
        "a neighbour of the receiver crashes": partial(_nearby, "receiver", 1),
        "a neighbour of the sender crashes": partial(_nearby, "sender", 1),
        "a node two links from the receiver crashes": partial(_nearby, "receiver", 2),
        "its kind is lost for a while": _kind_lost,
        "its link loses all for a while": _link_lost,
    }


FORMS: Mapping[str, Form] = _forms()
"""Functions that return the faults of a form for a target, by the name of the form.

The forms with the most findings in earlier hunts come first."""


def aimed(targets: Mapping[int | None, Sequence[Target]], around: Surroundings, first: int = 0) -> Iterator[Schedule]:
    """Yields a schedule for each pair of a form (`FORMS`) and a target to which the form applies.

    In the first pass over the forms, each form gets all targets of one seed, and consecutive forms get consecutive
    seeds. Each later pass gives each form its next seed. So a small number of schedules covers all forms and all seeds.

    Args:
        targets: The targets of each seed; key None stands for the seed of the scenario.
        around: The properties of the scenario on which the schedules depend.
        first: The index of the form with which each pass begins.
    """
    seeds, forms = list(targets), [*FORMS.items()]
    place = first % len(forms)
    forms = forms[place:] + forms[:place]
    for shift in range(len(seeds)):
        for number, (name, form) in enumerate(forms):
            seed = seeds[(number + shift) % len(seeds)]
            for target in targets[seed]:
                faults = form(target, around)
                if faults is not None:
                    to = f"{target.kind} from {target.src} to {target.dst} in round {target.due_round}"
                    of_seed = "" if seed is None else f", seed {seed}"
                    words = f"{target.position} {to} ({target.status}{of_seed}): {name}"
                    yield Schedule(tuple(faults), (words,), name, seed)


def drawn(
    by_seed: Mapping[int | None, Sequence[Target]], around: Surroundings, draws: np.random.Generator
) -> Iterator[Schedule]:
    """Yields distinct random schedules with one to three faults, as a control for aimed schedules.

    The faults use nodes, message kinds and rounds of the targets in ``by_seed``. The sequence ends after
    `_MOST_REPEATED` consecutive draws that repeat an earlier schedule.
    """
    seeds, targets = list(by_seed), [target for of_seed in by_seed.values() for target in of_seed]
    nodes = sorted({name for target in targets for name in (target.src, target.dst)})
    kinds = sorted({target.kind for target in targets})
    last = max(target.due_round for target in targets)
    keys, n_repeated = set[str](), 0
    while n_repeated < _MOST_REPEATED:
        faults = tuple(_drawn(nodes, kinds, last, around, draws) for _ in range(draws.integers(1, 4)))
        schedule = Schedule(faults, ("random",), "random", seeds[draws.integers(len(seeds))])
        n_repeated = n_repeated + 1 if schedule.key in keys else 0
        if not n_repeated:
            keys.add(schedule.key)
            yield schedule


_MOST_REPEATED = 1000
_DRAWN: Mapping[str, Fault] = {"duplicate": {"after": [0, 3]}, "delay": {"rounds": [1, 9], "reorder": True}}


def _drawn(
    nodes: Sequence[str], kinds: Sequence[str], last: int, around: Surroundings, draws: np.random.Generator
) -> Fault:
    kind = draws.choice(["crash", "crash", "pause", "loss", "duplicate", "delay"])
    first = int(draws.integers(0, last + 1))
    if kind == "crash":
        return _crash(str(draws.choice(nodes)), first, around.downs[draws.integers(len(around.downs))])
    until = first + 1 + int(draws.integers(around.detection_rounds + 1))
    if kind == "pause":
        return {"kind": "pause", "node": str(draws.choice(nodes)), "round": first, "until": until}
    of_kind = _DRAWN.get(str(kind), {})
    named = {"rate": 0.5, "kinds": [str(draws.choice(kinds))], "round": first, "until": until}
    return {"kind": str(kind), **named, **of_kind}


def with_calls(overlay: Overlay, workload: Workload) -> nx.Graph[str]:
    """Returns the graph of an overlay for `crash_sets`. The label of a node lists the calls that the node issues."""
    labels: dict[int, list[str]] = {}
    for table in (workload.subscription, workload.publication, workload.join, workload.other_call):
        for row in table.to_pylist():
            node = row.pop("node_id")
            labels.setdefault(node, []).append(repr(sorted(row.items(), key=str)))
    graph: nx.Graph[str] = nx.Graph()
    for node, name in enumerate(overlay.names):
        graph.add_node(name, label=tuple(sorted(labels.get(node, []))))
    there, back = overlay.directed_rounds.reshape(2, -1).tolist()
    for a, b, latency, back_latency in zip(overlay.a.tolist(), overlay.b.tolist(), there, back, strict=True):
        rounds = latency if latency == back_latency else (a, b, latency, back_latency)
        graph.add_edge(overlay.names[a], overlay.names[b], latency_rounds=rounds)
    return graph


def crash_sets(
    overlay: nx.Graph[str], most: int, window: tuple[int, int], down: int | None
) -> tuple[int, Iterator[Schedule]]:
    """Returns the number of schedules of one to ``most`` crashes in a window of rounds, and an iterator over them.

    If a symmetry of the overlay maps one schedule to another, only one of the two is returned.

    Args:
        overlay: The nodes that may crash, and their links. Symmetries preserve attribute ``label`` of nodes and
            attribute ``latency_rounds`` of links.
        most: The maximum number of crashes in a schedule. A schedule crashes each node at most once.
        window: The first and last round of crashes.
        down: The duration of an outage in rounds; None for permanent crashes.

    Raises:
        ValueError: The overlay has more than 10,000 symmetries.
    """
    symmetries = _symmetries(overlay)
    names = sorted(overlay)
    rounds = range(window[0], window[1] + 1)

    def unique() -> Iterator[tuple[tuple[str, int], ...]]:
        for size in range(1, most + 1):
            for nodes in combinations(names, size):
                for when in product(rounds, repeat=size):
                    crashes = tuple(zip(nodes, when, strict=True))
                    if all(crashes <= tuple(sorted((to[node], at) for node, at in crashes)) for to in symmetries):
                        yield crashes

    def schedules() -> Iterator[Schedule]:
        for crashes in unique():
            words = ", ".join(f"{node} in round {at}" for node, at in crashes)
            yield Schedule(tuple(_crash(node, at, down) for node, at in crashes), (f"crash {words}",), "exhaustive")

    return sum(1 for _ in unique()), schedules()


def _symmetries(overlay: nx.Graph[str]) -> list[dict[str, str]]:
    matcher = nx.algorithms.isomorphism.GraphMatcher(
        overlay, overlay, lambda one, other: one["label"] == other["label"],
        lambda one, other: one["latency_rounds"] == other["latency_rounds"],
    )  # fmt: skip
    found = []
    for number, mapping in enumerate(matcher.isomorphisms_iter()):
        if number >= _MOST_SYMMETRIES:
            raise ValueError(f"the overlay has more than {_MOST_SYMMETRIES:,} symmetries; name a smaller scenario")
        found.append(dict(mapping))
    return found

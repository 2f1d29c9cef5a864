"""Fault schedules: aimed at single messages of a run that was played, drawn at random, or enumerated."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

Fault = Mapping[str, Any]
_MOST_SYMMETRIES = 10_000
_LONG = 6
"""A long outage, in detection times."""


class Target(NamedTuple):
    """A message that a schedule aims at.

    Attributes:
        kind: Its kind.
        status: The status of its receiver in the round in which it is due.
        position: Its position among the messages of this kind and status: first, middle or last.
        src: The name of its sender.
        dst: The name of its receiver.
        sent_round: The round in which it is sent.
        due_round: The round in which it is due.
        nth: Its number among the messages of its kind and round from its sender to its receiver.
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
    """Faults that are added to those of the scenario.

    Attributes:
        faults: Entries of the scenario's list ``faults``.
        aims: What each stage of the search aimed at, in words.
        form: The form of the newest stage, for statistics.
        seed: The seed of the run; None: that of the scenario.
    """

    faults: tuple[Fault, ...]
    aims: tuple[str, ...]
    form: str
    seed: int | None = None

    @property
    def key(self) -> str:
        """A string that equal schedules share."""
        return json.dumps([self.seed, sorted(json.dumps(fault, sort_keys=True) for fault in self.faults)])

    def also(self, other: Schedule) -> Schedule:
        """Returns a schedule with the faults of both and the own seed."""
        return Schedule((*self.faults, *other.faults), (*self.aims, *other.aims), other.form, self.seed)


@dataclass(frozen=True)
class Surroundings:
    """The properties of a scenario, beside its messages, that aimed schedules depend on.

    Attributes:
        neighbours: The names of each node's neighbours in the overlay.
        detection_rounds: Rounds until a crash is noticed.
        has_nth: Whether a fault can strike one message alone; form dataflow counts no messages.
    """

    neighbours: Mapping[str, Sequence[str]]
    detection_rounds: int
    has_nth: bool = True

    @cached_property
    def downs(self) -> tuple[int | None, ...]:
        """The durations of outages in rounds: around the detection, for good (None), one round, a long one."""
        detection = self.detection_rounds
        return tuple(dict.fromkeys((detection + 1, None, 1, max(1, detection - 1), _LONG * detection)))


Form = Callable[[Target, Surroundings], list[Fault] | None]


def _crash(node: str, round_: int, down: int | None) -> Fault:
    return {"kind": "crash", "node": node, "round": max(round_, 0)} | (
        {} if down is None else {"until": max(round_, 0) + down}
    )


def _end(who: str, target: Target) -> tuple[str, int]:
    """Returns the receiver or the sender of a message, and the round in which it handles or sends it."""
    return (target.dst, target.due_round) if who == "receiver" else (target.src, target.sent_round)


def _crashing(who: str, shift: int, place: int) -> Form:
    def form(target: Target, around: Surroundings) -> list[Fault] | None:
        if place >= len(around.downs):
            return None
        node, round_ = _end(who, target)
        return [_crash(node, round_ + shift, around.downs[place])]

    return form


def _pausing(who: str, shift: int) -> Form:
    def form(target: Target, around: Surroundings) -> list[Fault]:
        node, round_ = _end(who, target)
        first = max(round_ + shift, 0)
        return [{"kind": "pause", "node": node, "round": first, "until": first + around.detection_rounds + 1}]

    return form


def _struck(target: Target, around: Surroundings, kind: str, **of_kind: object) -> list[Fault]:
    """Returns a fault that strikes the target alone, or all of its kind, round and link where nobody counts."""
    which: Fault = {"from": target.src, "to": target.dst, "nth": target.nth}
    if not around.has_nth:
        linked = target.dst in around.neighbours.get(target.src, ())
        which = {"rate": 1.0, **({"links": [[target.src, target.dst]], "direction": "forward"} if linked else {})}
    when = {"round": target.sent_round, "until": target.sent_round + 1}
    return [{"kind": kind, "kinds": [target.kind], **which, **when, **of_kind}]


def _lost(target: Target, around: Surroundings) -> list[Fault]:
    return _struck(target, around, "loss")


def _duplicated(target: Target, around: Surroundings) -> list[Fault]:
    return _struck(target, around, "duplicate", after=[0, around.detection_rounds])


def _delayed(target: Target, around: Surroundings) -> list[Fault]:
    rounds = 2 * (target.due_round - target.sent_round) + around.detection_rounds
    return _struck(target, around, "delay", rounds=[rounds, rounds], reorder=True)


def _recovering(who: str, shift: int) -> Form:
    def form(target: Target, around: Surroundings) -> list[Fault] | None:
        node, round_ = _end(who, target)
        first = round_ + shift - around.detection_rounds - 1
        return None if first < 0 else [_crash(node, first, around.detection_rounds + 1)]

    return form


def _both_ends(target: Target, around: Surroundings) -> list[Fault]:
    down = around.detection_rounds + 1
    return [_crash(node, target.due_round, down) for node in (target.src, target.dst)]


def _behind(target: Target, around: Surroundings) -> list[str]:
    """Returns the neighbours of the receiver without the sender."""
    return [name for name in around.neighbours.get(target.dst, ()) if name != target.src]


def _chain(stagger: int) -> Form:
    """The receiver crashes, and some rounds later a neighbour of it that is not the sender."""

    def form(target: Target, around: Surroundings) -> list[Fault] | None:
        down, others = around.detection_rounds + 1, _behind(target, around)
        crashes = enumerate((target.dst, *others[:1]))
        return [_crash(node, target.due_round + stagger * n, down) for n, node in crashes] if others else None

    return form


def _neighbours(target: Target, around: Surroundings) -> list[Fault] | None:
    """All neighbours of the receiver but the sender crash."""
    down = around.detection_rounds + 1
    return [_crash(node, target.due_round, down) for node in _behind(target, around)] or None


def _forms() -> dict[str, Form]:
    shifts = {0: "then", -1: "a round before", 1: "a round after"}
    named: dict[str, Form] = {
        "receiver crashes then": _crashing("receiver", 0, 0),
        "lost": _lost,
        "sender crashes a round after": _crashing("sender", 1, 0),
        "receiver recovers then": _recovering("receiver", 0),
        "receiver crashes then, for good": _crashing("receiver", 0, 1),
        "duplicated": _duplicated,
        "delayed": _delayed,
        "receiver pauses then": _pausing("receiver", 0),
        "both ends crash": _both_ends,
        "receiver and a neighbour crash": _chain(0),
        "sender recovers then": _recovering("sender", 0),
        "neighbours of the receiver crash": _neighbours,
        "receiver crashes, a round later a neighbour": _chain(1),
    }
    outages = ("", ", for good", ", for a round", ", until before the detection", ", for long")
    for place, who, (shift, when) in product(range(len(outages)), ("receiver", "sender"), shifts.items()):
        named.setdefault(f"{who} crashes {when}{outages[place]}", _crashing(who, shift, place))
    for who, (shift, when) in product(("receiver", "sender"), shifts.items()):
        named.setdefault(f"{who} pauses {when}", _pausing(who, shift))
        named.setdefault(f"{who} recovers {when}", _recovering(who, shift))
    return named


FORMS: Mapping[str, Form] = _forms()
"""The ways to strike a message, the most fruitful first."""


def aimed(targets: Mapping[int | None, Sequence[Target]], around: Surroundings, first: int = 0) -> Iterator[Schedule]:
    """Yields a schedule for each form and target: every kind of message is struck in one form before the next form.

    Each form takes the next seed, so that with few schedules all forms and all seeds are played.

    Args:
        targets: The messages of the runs with each seed; None is the seed of the scenario.
        around: What the scenario is like.
        first: The number of the form that comes first; the others follow it in turn.
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
    """Yields schedules of one to three faults at random nodes and rounds, for ever: the control of aimed ones.

    Args:
        by_seed: The messages of the runs with each seed; they say which kinds and rounds there are.
        around: What the scenario is like.
        draws: Decides.
    """
    seeds, targets = list(by_seed), [target for of_seed in by_seed.values() for target in of_seed]
    nodes = sorted({name for target in targets for name in (target.src, target.dst)})
    kinds = sorted({target.kind for target in targets})
    last = max(target.due_round for target in targets)
    while True:
        faults = tuple(_drawn(nodes, kinds, last, around, draws) for _ in range(draws.integers(1, 4)))
        yield Schedule(faults, ("random",), "random", seeds[draws.integers(len(seeds))])


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


def crash_sets(
    overlay: nx.Graph[str], most: int, window: tuple[int, int], down: int | None
) -> tuple[int, Iterator[Schedule]]:
    """Returns all schedules of one to ``most`` crashes in a window of rounds, and how many there are.

    Of schedules that a symmetry of the overlay maps on each other, one is left.

    Args:
        overlay: The nodes that may crash, with an attribute ``label`` that symmetries keep, and their links with
            ``latency_rounds``.
        most: Crashes of a schedule at most, each of another node.
        window: The first and last round of crashes.
        down: Rounds of an outage; None: for good.

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

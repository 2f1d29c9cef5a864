"""Creates fault schedules: aimed at messages of an earlier run, random, or all schedules of a few crashes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations, product, zip_longest
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from pipelines.contract.run_inputs import Overlay, Workload
from pipelines.errors import QueryError, plural

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
    """Faults that a hunt adds to the faults of a base run.

    ``aims`` describes each aim: its target and its form. ``form`` is the form of the last aim, a key of `FORMS`. A
    schedule without a target has form ``random``, ``exhaustive`` or ``none``. ``base`` is the index of the base run.
    """

    faults: tuple[Fault, ...]
    aims: tuple[str, ...]
    form: str
    base: int = 0

    @property
    def key(self) -> str:
        """A string that identifies the base run and the set of faults."""
        return json.dumps([self.base, sorted(json.dumps(fault, sort_keys=True) for fault in self.faults)])

    def also(self, other: Schedule) -> Schedule:
        """Returns a schedule with the faults and aims of this schedule, followed by the faults and aims of ``other``.

        The result has the base run of this schedule and the form of ``other``.
        """
        return Schedule((*self.faults, *other.faults), (*self.aims, *other.aims), other.form, self.base)


@dataclass(frozen=True)
class BaseRun:
    """The properties of a base run, a run without added faults, on which the schedules of a hunt depend.

    ``neighbours`` maps each node of the overlay to its neighbours. ``detection_rounds`` is the detection time, the
    number of rounds until a crash is detected. ``targets`` are the messages that faults can target. ``label`` names the
    run in descriptions of aims, for example ``seed 9``.
    """

    neighbours: Mapping[str, Sequence[str]]
    detection_rounds: int
    targets: Sequence[Target] = ()
    label: str = ""

    @cached_property
    def downs(self) -> tuple[int | None, ...]:
        """The durations of outages in rounds. None stands for a permanent outage.

        The durations are: the detection time plus one, permanent, one, the detection time minus one, and `_LONG` times
        the detection time.
        """
        detection = self.detection_rounds
        return tuple(dict.fromkeys((detection + 1, None, 1, max(1, detection - 1), _LONG * detection)))


Form = Callable[[Target, BaseRun], list[Fault]]
"""A function that returns the faults of a form for a target; an empty list if the form does not apply to the target."""


def _crash(node: str, round_: int, down: int | None) -> Fault:
    return {"kind": "crash", "node": node, "round": max(round_, 0)} | (
        {} if down is None else {"until": max(round_, 0) + down}
    )


def _crashes(base: BaseRun, places: Iterable[tuple[str, int]]) -> list[Fault]:
    """Returns a crash for each node and round; an outage lasts one round longer than the detection time."""
    return [_crash(node, round_, base.detection_rounds + 1) for node, round_ in places]


def _end(who: str, target: Target) -> tuple[str, int]:
    """Returns the target's receiver and due round, or, if ``who`` is ``sender``, its sender and round of sending."""
    return (target.dst, target.due_round) if who == "receiver" else (target.src, target.sent_round)


def _crashing(who: str, shift: int, outage: int, target: Target, base: BaseRun) -> list[Fault]:
    node, round_ = _end(who, target)
    return [_crash(node, round_ + shift, down) for down in base.downs[outage : outage + 1]]


def _pausing(who: str, shift: int, target: Target, base: BaseRun) -> list[Fault]:
    node, round_ = _end(who, target)
    first = max(round_ + shift, 0)
    return [{"kind": "pause", "node": node, "round": first, "until": first + base.detection_rounds + 1}]


def _struck(kind: str, target: Target, **of_kind: object) -> list[Fault]:
    which = {"from": target.src, "to": target.dst, "nth": target.nth}
    when = {"round": target.sent_round, "until": target.sent_round + 1}
    return [{"kind": kind, "kinds": [target.kind], **which, **when, **of_kind}]


def _delayed(target: Target, base: BaseRun) -> list[Fault]:
    rounds = 2 * (target.due_round - target.sent_round) + base.detection_rounds
    return _struck("delay", target, rounds=[rounds, rounds], reorder=True)


def _recovering(who: str, shift: int, target: Target, base: BaseRun) -> list[Fault]:
    node, round_ = _end(who, target)
    first = round_ + shift - base.detection_rounds - 1
    return _crashes(base, [(node, first)] if first >= 0 else [])


def _behind(target: Target, base: BaseRun) -> list[str]:
    """Returns the neighbours of the target's receiver, except the target's sender."""
    return [name for name in base.neighbours.get(target.dst, ()) if name != target.src]


def _chain(stagger: int, target: Target, base: BaseRun) -> list[Fault]:
    """Returns a crash of the target's receiver, and, ``stagger`` rounds later, a crash of one of its neighbours."""
    others = _behind(target, base)[:1]
    return _crashes(base, [(target.dst, target.due_round), (others[0], target.due_round + stagger)] if others else [])


def _nearby(who: str, n_links: int, target: Target, base: BaseRun) -> list[Fault]:
    """Returns a crash of a node ``n_links`` links away from the target's sender or receiver, as ``who`` selects."""
    node, round_ = _end(who, target)
    reached, found = {target.src, target.dst}, [node]
    for _ in range(n_links):
        further = dict.fromkeys(name for near in found for name in base.neighbours.get(near, ()))
        found = [name for name in further if name not in reached]
        reached |= {*found}
    return _crashes(base, ((name, round_) for name in found[:1]))


def _lost_for_a_while(target: Target, base: BaseRun, **which: object) -> list[Fault]:
    """Returns a loss of the messages that ``which`` selects, until the detection of a crash would have ended."""
    when = {"round": target.sent_round, "until": target.sent_round + base.detection_rounds + 1}
    return [{"kind": "loss", "rate": 1.0, **when, **which}]


def _link_lost(target: Target, base: BaseRun) -> list[Fault]:
    if target.dst not in base.neighbours.get(target.src, ()):
        return []
    return _lost_for_a_while(target, base, links=[[target.src, target.dst]], direction="forward")


def _forms() -> dict[str, Form]:
    shifts = {0: "then", -1: "a round before", 1: "a round after"}
    named: dict[str, Form] = {
        "receiver crashes then": partial(_crashing, "receiver", 0, 0),
        "lost": lambda target, _: _struck("loss", target),
        "sender crashes a round after": partial(_crashing, "sender", 1, 0),
        "receiver recovers then": partial(_recovering, "receiver", 0),
        "receiver crashes then, for good": partial(_crashing, "receiver", 0, 1),
        "duplicated": lambda target, base: _struck("duplicate", target, after=[0, base.detection_rounds]),
        "delayed": _delayed,
        "receiver pauses then": partial(_pausing, "receiver", 0),
        "both ends crash": lambda target, base: _crashes(
            base, ((node, target.due_round) for node in (target.src, target.dst))
        ),
        "receiver and a neighbour crash": partial(_chain, 0),
        "sender recovers then": partial(_recovering, "sender", 0),
        "neighbours of the receiver crash": lambda target, base: _crashes(
            base, ((node, target.due_round) for node in _behind(target, base))
        ),
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
        "its kind is lost for a while": lambda target, base: _lost_for_a_while(target, base, kinds=[target.kind]),
        "its link loses all for a while": _link_lost,
    }


FORMS: Mapping[str, Form] = _forms()
"""Functions that return the faults of a form for a target, by the name of the form.

The forms with the most findings in earlier hunts come first."""


def aimed(bases: Sequence[BaseRun], first: int = 0) -> Iterator[Schedule]:
    """Yields a schedule for each pair of a form (`FORMS`) and a target to which the form applies.

    In a pass over the forms, each form gets all targets of one base run, and consecutive forms get consecutive base
    runs. The next pass shifts the base run of each form by one. If there are more base runs than forms, it shifts by up
    to the number of forms. So a small number of schedules covers all forms and all base runs.

    Args:
        bases: The base runs.
        first: The index of the form with which each pass begins.
    """
    forms = [*FORMS.items()]
    place = first % len(forms)
    forms = forms[place:] + forms[:place]
    n_bases = len(bases)
    longest = len(forms) if n_bases > len(forms) else 1
    step = next(step for step in range(longest, 0, -1) if math.gcd(step, n_bases) == 1)
    for shift in range(n_bases):
        for number, (name, form) in enumerate(forms):
            index = (number + shift * step) % n_bases
            base = bases[index]
            for target in base.targets:
                if faults := form(target, base):
                    to = f"{target.kind} from {target.src} to {target.dst} in round {target.due_round}"
                    words = f"{target.position} {to} ({', '.join(filter(None, (target.status, base.label)))}): {name}"
                    yield Schedule(tuple(faults), (words,), name, index)


def drawn(bases: Sequence[BaseRun], draws: np.random.Generator) -> Iterator[Schedule]:
    """Yields distinct random schedules with one to three faults, as a control for aimed schedules.

    The faults of a schedule use nodes, message kinds and rounds of the targets of its base run. Base runs without a
    target get no schedule. The sequence ends after `_MOST_REPEATED` consecutive draws that repeat an earlier schedule.
    """
    used = [(index, base, _ranges(base.targets)) for index, base in enumerate(bases) if base.targets]
    keys, n_repeated = set[str](), 0
    while n_repeated < _MOST_REPEATED:
        index, base, ranges = used[draws.integers(len(used))]
        faults = tuple(_drawn(ranges, base, draws) for _ in range(draws.integers(1, 4)))
        words = ", ".join(filter(None, ("random", base.label)))
        schedule = Schedule(faults, (words,), "random", index)
        n_repeated = n_repeated + 1 if schedule.key in keys else 0
        if not n_repeated:
            keys.add(schedule.key)
            yield schedule


_MOST_REPEATED = 1000
_DRAWN: Mapping[str, Fault] = {"duplicate": {"after": [0, 3]}, "delay": {"rounds": [1, 9], "reorder": True}}


class _Ranges(NamedTuple):
    """The values from which random faults are drawn: names of nodes, kinds of messages, rounds 0 to ``last``."""

    nodes: Sequence[str]
    kinds: Sequence[str]
    last: int


def _ranges(targets: Sequence[Target]) -> _Ranges:
    nodes = {name for target in targets for name in (target.src, target.dst)}
    last = max(target.due_round for target in targets)
    return _Ranges(sorted(nodes), sorted({target.kind for target in targets}), last)


def _drawn(ranges: _Ranges, base: BaseRun, draws: np.random.Generator) -> Fault:
    kind = draws.choice(["crash", "crash", "pause", "loss", "duplicate", "delay"])
    first = int(draws.integers(0, ranges.last + 1))
    if kind == "crash":
        return _crash(str(draws.choice(ranges.nodes)), first, base.downs[draws.integers(len(base.downs))])
    until = first + 1 + int(draws.integers(base.detection_rounds + 1))
    if kind == "pause":
        return {"kind": "pause", "node": str(draws.choice(ranges.nodes)), "round": first, "until": until}
    of_kind = _DRAWN.get(str(kind), {})
    named = {"rate": 0.5, "kinds": [str(draws.choice(ranges.kinds))], "round": first, "until": until}
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


def all_crashes(
    bases: Sequence[BaseRun], graphs: Sequence[nx.Graph[str]], most: int, window: tuple[int, int] | None,
    say: Callable[[str], None],
) -> Iterator[Schedule]:  # fmt: skip
    """Returns all schedules of up to ``most`` crashes in a window of rounds (`crash_sets`), of all base runs in turn.

    Args:
        bases: The base runs. A base run without a target gets no schedule.
        graphs: The overlay of each base run (`with_calls`).
        most: The maximum number of crashes in a schedule.
        window: The first and last round of crashes; None for the rounds of the first and last target.
        say: Receives the number of schedules of each base run.

    Raises:
        QueryError: An overlay has too many symmetries.
    """
    found = list[Iterator[Schedule]]()
    for index, (base, graph) in enumerate(zip(bases, graphs, strict=True)):
        due = [target.due_round for target in base.targets]
        if due:
            first, last = window or (min(due), max(due))
            number, crashes = crash_sets(graph, most, (first, last), base.downs[0])
            of_run = f", {base.label}" if base.label else ""
            say(f"{plural(number, 'schedule')} of up to {most} crashes in rounds {first} to {last}{of_run}")
            found.append(map(Schedule((), (base.label,) if base.label else (), "none", index).also, crashes))
    return (schedule for of_runs in zip_longest(*found) for schedule in of_runs if schedule is not None)


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
        QueryError: The overlay has more than 10,000 symmetries.
    """
    symmetries, rounds = _symmetries(overlay), range(window[0], window[1] + 1)

    def unique() -> Iterator[tuple[tuple[str, int], ...]]:
        for size in range(1, most + 1):
            for nodes in combinations(sorted(overlay), size):
                for when in product(rounds, repeat=size):
                    crashes = tuple(zip(nodes, when, strict=True))
                    if all(crashes <= tuple(sorted((to[node], at) for node, at in crashes)) for to in symmetries):
                        yield crashes

    def schedule(crashes: tuple[tuple[str, int], ...]) -> Schedule:
        words = ", ".join(f"{node} in round {at}" for node, at in crashes)
        return Schedule(tuple(_crash(node, at, down) for node, at in crashes), (f"crash {words}",), "exhaustive")

    return sum(1 for _ in unique()), map(schedule, unique())


def _symmetries(overlay: nx.Graph[str]) -> list[dict[str, str]]:
    matcher = nx.algorithms.isomorphism.GraphMatcher(
        overlay, overlay, lambda one, other: one["label"] == other["label"],
        lambda one, other: one["latency_rounds"] == other["latency_rounds"],
    )  # fmt: skip
    found = []
    for number, mapping in enumerate(matcher.isomorphisms_iter()):
        if number >= _MOST_SYMMETRIES:
            raise QueryError(f"the overlay has more than {_MOST_SYMMETRIES:,} symmetries; name a smaller scenario")
        found.append(dict(mapping))
    return found

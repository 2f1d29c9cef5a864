"""Converts the link faults of a scenario to rows of `LINK_FAULT`, `NTH_FAULT`, `SIDE` and `EVENT`.

In a replacement, a link of the tree breaks permanently, and a new link connects the two parts of the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pyarrow as pa

from pipelines.contract.run_inputs import EVENT, LINK_FAULT, NTH_FAULT, SIDE, Ints, Overlay, table_of
from pipelines.errors import InputError, Problem, listed, raise_problems
from pipelines.inputs import draws_numpy
from pipelines.inputs.faults.timeline import FOR_GOOD, Timeline, cycles
from pipelines.inputs.overlay.build import graph_of, ids_by_name
from pipelines.scenario.faults import (
    Burst,
    Delay,
    Duplicate,
    LinkFaultSpec,
    Loss,
    MessageFault,
    Partition,
    Replace,
    ReplaceGenerator,
)

_Ends = tuple[int, int]
Pair = tuple[int | None, int | None]
_ANY: Pair = (None, None)
_Strike = tuple[Pair, int, int, float]
"""Directed link, first round, round after the last round, and rate of a row of `LINK_FAULT`."""


class Replacement(NamedTuple):
    """A link `old` that breaks in round `broken`, and the link `new` that replaces it from round `round` on.

    `latency` is that of the new link, in rounds. `number` is the index of the fault in the scenario.
    """

    broken: int
    round: int
    old: _Ends
    new: _Ends
    latency: int
    number: int


def plan_replacements(wanted: Sequence[tuple[int, Replace]], overlay: Overlay) -> list[Replacement]:
    """Returns the replacements of a run, in order of (first round of the new link, round of the break).

    `wanted` contains each fault with its index in list ``faults``. `overlay` contains all nodes of the faults.

    Raises:
        InputError: The overlay has cycles, a link does not exist in the round of its break, or a new link is invalid. A
            new link must connect the two parts of the tree. It must not begin before an earlier link between its two
            nodes has ended, and must have the latency of this earlier link.
    """
    if wanted and len(overlay.a) >= len(overlay.names):
        message = "the overlay has cycles, and only links of a tree are replaced; allowed: break, or a protocol that"
        raise InputError(Problem(("faults", wanted[0][0]), f"{message} needs a tree"))
    ids, tree = ids_by_name(overlay), graph_of(overlay)
    since: dict[frozenset[int], int] = {}
    ending: dict[frozenset[int], int] = {}
    ends = zip(overlay.a.tolist(), overlay.b.tolist(), overlay.latency_rounds.tolist(), strict=True)
    latencies = {frozenset((a, b)): rounds for a, b, rounds in ends}
    planned: list[Replacement] = []
    problems: list[Problem] = []
    for number, fault in sorted(wanted, key=lambda one: (one[1].round, one[0])):
        (a, b), (c, d) = fault.link, fault.by
        old, new = (ids[a], ids[b]), (ids[c], ids[d])
        if not tree.has_edge(*old) or since.get(frozenset(old), 0) >= fault.round:
            around = listed(sorted(overlay.names[other] for other in tree.neighbors(old[0]))) or "nobody"
            message = f"no link joins {a!r} and {b!r} in round {fault.round}; linked with {a!r}: {around}"
            problems.append(Problem(("faults", number, "link"), message))
            continue
        tree.remove_edge(*old)
        if nx.has_path(tree, *new):
            part = listed(sorted(overlay.names[other] for other in nx.node_connected_component(tree, old[0])))
            message = (
                f"without the link of {a!r} and {b!r} one part of the tree is {part}; allowed: a node of that part"
            )
            problems.append(Problem(("faults", number, "by"), f"{message} and one of the other"))
            tree.add_edge(*old)
            continue
        begun = fault.round + fault.after
        if (end := ending.get(frozenset(new), 0)) > begun:
            message = f"{c!r} and {d!r} are to be linked in round {begun}, and their link that breaks"
            cure = f"is replaced in round {end}; allowed: that round or a later one, or other nodes"
            problems.append(Problem(("faults", number, "by"), f"{message} {cure}"))
            tree.add_edge(*old)
            continue
        latency = fault.latency or latencies.get(frozenset(new), latencies[frozenset(old)])
        if latencies.setdefault(frozenset(new), latency) != latency:
            known = latencies[frozenset(new)]
            message = f"the link of {c!r} and {d!r} had latency {known} before; leave latency out"
            problems.append(Problem(("faults", number, "latency"), message))
        tree.add_edge(*new)
        since[frozenset(new)] = ending[frozenset(old)] = begun
        planned.append(Replacement(fault.round, begun, old, new, latency, number))
    raise_problems(problems)
    return sorted(planned, key=lambda one: one.round)


def drawn_replacements(
    generator: ReplaceGenerator, overlay: Overlay, horizon: int, seed: int, purpose: str
) -> Iterator[Replace]:
    """Yields random replacements: each breaks an existing link, and connects the two parts of the tree by a new link.

    The replacements assume that no other fault replaces a link of `overlay`. `purpose` is the name of the random draws.
    """
    tree, since, ending = graph_of(overlay), dict[frozenset[int], int](), dict[frozenset[int], int]()
    number = np.arange(generator.count, dtype=np.int64)
    rounds = np.sort(draws_numpy.integers(seed, f"{purpose}.round", *(generator.rounds or (1, horizon)), number))
    afters = draws_numpy.integers(seed, f"{purpose}.after", *generator.after, number)

    def drawn(what: str, among: list[int], place: int) -> int:
        return among[int(draws_numpy.integers(seed, f"{purpose}.{what}", 0, len(among) - 1, place))]

    for place, (round_, after) in enumerate(zip(rounds.tolist(), afters.tolist(), strict=True)):
        standing = sorted(tuple(sorted(ends)) for ends in tree.edges() if since.get(frozenset(ends), 0) < round_)
        if not standing:
            continue
        old = standing[drawn("link", list(range(len(standing))), place)]
        tree.remove_edge(*old)
        sides = [sorted(nx.node_connected_component(tree, end)) for end in old]
        first, begun = drawn("end0", sides[0], place), round_ + after
        # The link table keeps a broken link until its replacement begins. Until then no new link may have the same
        # ends.
        free = [node for node in sides[1] if ending.get(frozenset((first, node)), 0) <= begun]
        new = [first, drawn("end1", free, place)] if free else [*old]
        tree.add_edge(*new)
        since[frozenset(new)] = ending[frozenset(old)] = begun
        link, by = ([overlay.names[node] for node in ends] for ends in (old, new))
        yield Replace.model_validate({"kind": "replace", "link": link, "by": by, "round": round_, "after": after})


def bad_times(burst: Burst, link: Ints, rounds: tuple[int, int], seed: int, purpose: str) -> tuple[Ints, Ints, Ints]:
    """Returns the bad periods of links that alternate between good and bad periods (channel of Gilbert and Elliott).

    A link is bad in the first round with the stationary probability bad / (good + bad). Lengths of periods have a
    geometric distribution. This distribution is memoryless, so the age of the first period is not drawn. The draws of a
    link are hashes of its index in `link`. `rounds` contains the first round, and the round after the last round.

    Returns:
        Three columns with a row for each bad period: its link, its first round, and the round after its last round.
        Rows are in order of (link, first round).
    """

    def draw(link: Ints, cycle: Ints) -> tuple[Ints, Ints]:
        is_bad = draws_numpy.uniform(seed, f"{purpose}.begin", link) < burst.bad / (burst.good + burst.bad)
        first = np.where(is_bad, 0, _sojourn(burst.good, seed, f"{purpose}.first", link, 0))
        good = _sojourn(burst.good, seed, f"{purpose}.good", link, cycle - 1)
        return np.where(cycle == 0, first, good), _sojourn(burst.bad, seed, f"{purpose}.bad", link, cycle)

    parts = list(cycles(link, *rounds, draw)) or [(link, link, link)]
    of, start, end = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((start, of))
    return of[order], start[order], np.minimum(end, rounds[1])[order]


def _sojourn(mean: float, seed: int, purpose: str, link: Ints, cycle: draws_numpy.Key) -> Ints:
    drawn = draws_numpy.uniform(seed, purpose, link, cycle)
    if mean <= 1.0:
        return np.ones(drawn.shape, dtype=np.int64)
    times: Ints = 1 + np.floor(np.log1p(-drawn) / np.log1p(-1.0 / mean)).astype(np.int64)
    return times


@dataclass
class LinkRows:
    """Collects the rows of the link faults of one run, which ends in round `horizon`.

    The events of a partition into groups name the links of `linked` between the groups. None stands for a protocol that
    builds its overlay: the events name no link.
    """

    overlay: Overlay
    linked: Overlay | None
    seed: int
    horizon: int
    _fault: list[tuple[Any, ...]] = field(default_factory=list)
    _nth: list[tuple[Any, ...]] = field(default_factory=list)
    _parts: list[tuple[int, int, Ints]] = field(default_factory=list)
    _relinked: list[tuple[Any, ...]] = field(default_factory=list)
    _events: Timeline[tuple[Any, ...]] = field(default_factory=Timeline)

    def add(self, fault: LinkFaultSpec, number: int) -> None:
        """Adds the rows and the events of `fault`. The overlay must contain the links of the fault.

        The draws of the fault depend on `number`, the index of the fault in list ``faults``.
        """
        if fault.round > self.horizon or _never_strikes(fault):
            return
        until = FOR_GOOD if fault.until is None else fault.until
        purpose = f"faults.{stream_of(fault, number)}.{fault.kind}"
        pairs = self._pairs(fault, until)
        for kind in event_kinds(fault):
            for pair in pairs:
                self.event(kind, pair, fault.round, until)
        effect, rounds = "lose", (0, 0)
        if isinstance(fault, Delay):
            effect, rounds = "reorder" if fault.reorder else "delay", fault.rounds
        elif isinstance(fault, Duplicate):
            effect, rounds = "duplicate", fault.after
        kinds, rate = (fault.kinds, fault.rate) if isinstance(fault, MessageFault) else (None, None)
        # After the end of a delay, messages may still wait for delayed messages.
        end = until + (rounds[1] if effect == "delay" else 0)
        strikes: Iterable[_Strike] = ((pair, fault.round, end, 1.0 if rate is None else rate) for pair in pairs)
        salt, last = self._salt(purpose), FOR_GOOD if fault.until is None else fault.until - 1
        if isinstance(fault, MessageFault) and fault.nth is not None:
            effect = "copy" if effect == "duplicate" else effect
            self._nth.append((effect, *pairs[0], fault.round, until, kinds, fault.nth, salt, *rounds))
            return
        if isinstance(fault, Partition) and fault.groups is not None:
            return
        if isinstance(fault, Loss) and fault.burst is not None:
            strikes = self._bursts(fault, fault.burst, purpose, until)
        self._fault += [
            (effect, *pair, *times, kinds, salt, rate, *rounds, fault.round, last)
            for pair, *times, rate in strikes if rate > 0.0
        ]  # fmt: skip

    def _salt(self, purpose: str) -> int:
        return int(draws_numpy.bits(self.seed, purpose).astype(np.int64))

    def replace(self, replaced: Replacement) -> None:
        """Adds the fault rows and the events of a replaced link.

        The old link loses all messages from its break until the first round of the new link.
        """
        if replaced.broken < replaced.round:
            gap, (a, b) = (replaced.broken, replaced.round), replaced.old
            salt = self._salt(f"faults.{replaced.number}.replace")
            for pair in ((a, b), (b, a)):
                self.event("break", pair, *gap)
                self._fault.append(("lose", *pair, *gap, None, salt, 1.0, 0, 0, replaced.broken, replaced.round - 1))
        if replaced.round <= self.horizon:
            for kind, (a, b) in (("unlink", replaced.old), ("link", replaced.new)):
                self._relinked += [(replaced.round, kind, None, a, b), (replaced.round, kind, None, b, a)]

    def event(self, kind: str, pair: Pair, start: int, end: int, *, node: int | None = None) -> None:
        """Adds an event for the start of a fault, and an event for its end if the fault ends by the horizon.

        Faults of one kind at one link or node share these two events if their intervals overlap or touch.
        """
        self._events.add((kind, node, *pair), start, end)

    def _pairs(self, fault: LinkFaultSpec, until: int) -> list[Pair]:
        """Returns the directed links of a fault, which ends before round `until`; null ends stand for all nodes.

        For a partition into groups, records the group of each node, and returns the links between different groups.
        """
        ids = ids_by_name(self.overlay)
        if isinstance(fault, MessageFault) and fault.nth is not None:
            return [(ids.get(fault.sender or ""), ids.get(fault.receiver or ""))]
        if isinstance(fault, Partition) and fault.groups is not None:
            side = np.zeros(len(self.overlay.names), dtype=np.int64)
            for number, names in enumerate(fault.groups, start=1):
                side[[ids[name] for name in names]] = number
            self._parts.append((fault.round, until, side))
            if self.linked is None:
                return [_ANY]
            between = zip(*(ends.tolist() for ends in self.linked.directed_links), strict=True)
            return [pair for pair in between if side[pair[0]] != side[pair[1]]]
        return [_ANY] if fault.links is None else [*self._directed(fault)]

    def _directed(self, fault: LinkFaultSpec) -> list[tuple[int, int]]:
        ids = ids_by_name(self.overlay)
        if fault.links is None:
            forward = list(zip(self.overlay.a.tolist(), self.overlay.b.tolist(), strict=True))
        else:
            forward = [(ids[a], ids[b]) for a, b in fault.links]
        return forward if fault.direction == "forward" else forward + [(b, a) for a, b in forward]

    def _bursts(self, fault: Loss, burst: Burst, purpose: str, until: int) -> Iterator[_Strike]:
        end = min(until, self.horizon + 1)
        n_nodes = len(self.overlay.names)
        link = np.array([src * n_nodes + dst for src, dst in self._directed(fault)], dtype=np.int64)
        times = bad_times(burst, link, (fault.round, end), self.seed, f"{purpose}.burst")
        good_from = dict.fromkeys(link.tolist(), fault.round)
        for of, low, high in zip(*(column.tolist() for column in times), strict=True):
            pair = divmod(of, n_nodes)
            self.event("burst", pair, low, high)
            yield pair, low, high, fault.rate or 0.0
            if good_from[of] < low:
                yield pair, good_from[of], low, burst.good_rate
            good_from[of] = high
        for of, low in good_from.items():
            if low < end:
                yield divmod(of, n_nodes), low, end, burst.good_rate

    def tables(self) -> tuple[pa.Table, pa.Table, pa.Table, pa.Table]:
        """Returns the tables `LINK_FAULT`, `NTH_FAULT`, `SIDE` and `EVENT`."""
        events = [*self._relinked]
        for (kind, *place), start, end in self._events.intervals():
            events.append((start, kind, *place))
            if end <= self.horizon:
                events.append((end, f"{kind}_end", *place))
        events.sort(key=lambda row: [(value is not None, value) for value in row])
        fault, nth = table_of(self._fault, LINK_FAULT), table_of(self._nth, NTH_FAULT)
        return fault, nth, sides(self._parts), table_of(events, EVENT)


def sides(parts: Sequence[tuple[int, int, Ints]]) -> pa.Table:
    """Returns the rows of table `SIDE` for partitions, which may overlap in time.

    Each element of `parts` is a partition: its first round, the round after its last round, and the group of each node.
    In a period with several partitions, two nodes are on one side if they are in one group of each partition.
    """
    rounds = sorted({round_ for start, end, _ in parts for round_ in (start, end)})
    rows: list[tuple[int, ...]] = []
    for low, high in pairwise(rounds):
        now = [side for start, end, side in parts if start <= low < end]
        if now:
            _, code = np.unique(np.stack(now), axis=1, return_inverse=True)
            rows += [(node, low, high, side) for node, side in enumerate(code.ravel().tolist())]
    return table_of(rows, SIDE)


def stream_of(fault: LinkFaultSpec, number: int) -> int:
    """Returns the random stream of a fault: the fault's key `stream` if set, else `number`, the index of the fault."""
    own = fault.stream if isinstance(fault, MessageFault) else None
    return number if own is None else own


def event_kinds(fault: LinkFaultSpec) -> list[str]:
    """Returns the kinds of the events of `fault`; ``reorder`` if messages can overtake earlier messages."""
    if isinstance(fault, Delay):
        return ["reorder"] if fault.reorder else ["delay"]
    if isinstance(fault, Duplicate) and fault.after[1] > 0:
        return ["duplicate", "reorder"]
    return [fault.kind]


def _never_strikes(fault: LinkFaultSpec) -> bool:
    if isinstance(fault, Delay) and fault.rounds[1] == 0:
        return True
    good_rate = fault.burst.good_rate if isinstance(fault, Loss) and fault.burst is not None else 0.0
    return isinstance(fault, MessageFault) and fault.rate == 0.0 and good_rate == 0.0

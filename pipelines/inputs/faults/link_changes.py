"""Replacements of links: a link of the tree breaks permanently, and a new link connects the two parts of the tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import networkx as nx
import numpy as np

from pipelines.contract.run_inputs import Overlay
from pipelines.errors import InputError, Problem, listed
from pipelines.inputs import draws_numpy
from pipelines.inputs.overlay.nodes import graph_of, ids_by_name
from pipelines.scenario.faults import ReplaceGenerator
from pipelines.scenario.link_faults import Replace

_Ends = tuple[int, int]


class Replacement(NamedTuple):
    """A link that breaks, and the new link that replaces it.

    Attributes:
        broken: The round of the break.
        round: The first round of the new link.
        old: The two ends of the link that breaks.
        new: The two ends of the new link.
        latency: Latency of the new link in rounds.
        number: Index of the fault in list ``faults`` of the scenario.
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
        (a, b), old, new = fault.link, _ends(fault.link, ids), _ends(fault.by, ids)
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
            message = (
                f"{fault.by[0]!r} and {fault.by[1]!r} are to be linked in round {begun}, and their link that breaks"
            )
            cure = f"is replaced in round {end}; allowed: that round or a later one, or other nodes"
            problems.append(Problem(("faults", number, "by"), f"{message} {cure}"))
            tree.add_edge(*old)
            continue
        latency = fault.latency or latencies.get(frozenset(new), latencies[frozenset(old)])
        if latencies.setdefault(frozenset(new), latency) != latency:
            known = latencies[frozenset(new)]
            message = f"the link of {fault.by[0]!r} and {fault.by[1]!r} had latency {known} before; leave latency out"
            problems.append(Problem(("faults", number, "latency"), message))
        tree.add_edge(*new)
        since[frozenset(new)] = ending[frozenset(old)] = begun
        planned.append(Replacement(fault.round, begun, old, new, latency, number))
    if problems:
        raise InputError(*problems)
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


def _ends(names: tuple[str, str], ids: dict[str, int]) -> _Ends:
    return ids[names[0]], ids[names[1]]

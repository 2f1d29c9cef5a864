"""Checks the calls and faults of a scenario: their nodes and links exist, and no round is after the horizon."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TypeAlias

from pipelines.contract.settings import Strict
from pipelines.errors import KeyPath, Problem, listed, nearest
from pipelines.scenario.faults import BreakGenerator, Crash, Fault, FaultGenerator
from pipelines.scenario.link_faults import LinkFaultSpec, Partition
from pipelines.scenario.overlay import MAX_SEARCHED, OverlaySpec
from pipelines.scenario.times import CALLS
from pipelines.scenario.workload import Join, WorkloadSpec

Call: TypeAlias = "tuple[KeyPath, Strict]"
_NODE_FIELDS = frozenset({"at", "node", "to", "peer", "links", "groups", "link", "by", "sender", "receiver"})


def calls(workload: WorkloadSpec, faults: Sequence[Fault]) -> Iterator[Call]:
    """Yields the elements of `workload` and `faults`, each with its path in the scenario.

    An element is a listed call, the specification of a generator or a file of calls, or a fault.
    """
    for name in CALLS:
        part = getattr(workload, name)
        path: KeyPath = ("workload", name)
        if isinstance(part, list):
            yield from (((*path, index), item) for index, item in enumerate(part))
        else:
            yield path, part
    yield from ((("faults", index), fault) for index, fault in enumerate(faults))


def call_problems(overlay: OverlaySpec | None, horizon: int | None, parts: Iterable[Call]) -> Iterator[Problem]:
    """Yields a problem for each unknown node, late round, missing link, repeated join and overlapping crash.

    Node names and links are checked only if the overlay lists its links, servers and clients. A round is late if it is
    after `horizon`; if `horizon` is `None`, rounds are not checked.
    """
    parts = list(parts)
    if overlay is not None and (links := _listed_links(overlay)):
        yield from name_problems(parts, sorted({name for link in links for name in link}), links)
    joined = dict[str, KeyPath]()
    crashes: dict[str, list[tuple[KeyPath, Crash]]] = defaultdict(list)
    for path, part in parts:
        if horizon is not None:
            yield from _late(path, part, horizon)
        if isinstance(part, Join):
            if part.node == part.to:
                message = f"{part.node!r} cannot join at itself; allowed: a neighbour of {part.node!r}"
                yield Problem((*path, "to"), message)
            if joined.setdefault(part.node, path) != path:
                yield Problem((*path, "node"), f"{part.node!r} joins twice; allowed: one join for each node")
        elif isinstance(part, Crash):
            crashes[part.node].append((path, part))
    for of_node in crashes.values():
        yield from _crash_problems(of_node)


def name_problems(
    parts: Iterable[Call], names: Sequence[str], links: Iterable[tuple[str, str]]
) -> Iterator[Problem]:  # fmt: skip
    """Yields a problem for each unknown node and missing link in `parts`, and for each partition that splits nothing.

    `names` and `links` are those of the overlay. The links of a part are checked only if it has no unknown node.
    """
    known = frozenset(names)

    @cache
    def around() -> dict[str, set[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for a, b in links:
            found[a].add(b)
            found[b].add(a)
        return found

    for path, part in parts:
        if unknown := [(place, name) for place, name in _nodes(path, part) if name not in known]:
            yield from (Problem(place, unknown_node(name, names)) for place, name in unknown)
            continue
        for place, a, b in _linked(path, part):
            if a != b and b not in around()[a]:
                near = listed([name for name in names if name in around()[a]]) or "nobody"
                cure = ", or add the link to overlay.links" if isinstance(part, Join) else ""
                yield Problem(place, f"no link joins {a!r} and {b!r}; linked with {a!r}: {near}{cure}")
        if isinstance(part, Partition) and len(part.groups or ()) == 1 and known <= {*(part.groups or [[]])[0]}:
            message = "the group holds all nodes, so nothing is split; leave some of them out"
            yield Problem((*path, "groups"), message)


def unknown_node(name: str, names: Sequence[str]) -> str:
    """Returns the error message for `name`, which is not in `names`, the nodes of the overlay."""
    return f"the overlay has no node {name!r};{nearest(name, names[:MAX_SEARCHED])} allowed: {listed(names)}"


def _listed_links(overlay: OverlaySpec) -> list[tuple[str, str]]:
    # The names of nodes in overlays from files and generators are not known here; `pipelines.inputs` checks them.
    if overlay.links is None or not isinstance(overlay.clients, list) or not isinstance(overlay.servers, list):
        return []
    brokers = [(link[0], link[1]) for link in overlay.links]
    return brokers + [(one.name, one.at) for one in (*overlay.servers, *overlay.clients)]


def _nodes(path: KeyPath, part: Strict) -> Iterator[tuple[KeyPath, str]]:
    for key, field in _node_keys(type(part)):
        yield from _names((*path, key), getattr(part, field))
    for source in ("file", "generate"):
        if (inner := getattr(part, source, None)) is not None:
            for key in ("nodes", "spare", "links"):
                if isinstance(value := getattr(inner, key, None), list):
                    yield from _names((*path, source, key), value)


@cache
def _node_keys(model: type[Strict]) -> list[tuple[str, str]]:
    return [(of.alias or field, field) for field, of in model.model_fields.items() if field in _NODE_FIELDS]


def _names(path: KeyPath, value: object) -> Iterator[tuple[KeyPath, str]]:
    """Yields each string in `value` (a string or nested lists of strings), and the path of the string."""
    if isinstance(value, str):
        yield path, value
    for index, item in enumerate(value if isinstance(value, (list, tuple)) else ()):
        yield from _names((*path, index), item)


def _linked(path: KeyPath, part: Strict) -> Iterator[tuple[KeyPath, str, str]]:
    """Yields the two ends of each link that `part` needs, and the path of the link."""
    if isinstance(part, Join):
        yield (*path, "to"), part.node, part.to
    elif isinstance(part, LinkFaultSpec):
        yield from (((*path, "links", index), *link) for index, link in enumerate(part.links or ()))
    elif isinstance(part, FaultGenerator) and isinstance(part.generate, BreakGenerator):
        place = (*path, "generate", "links")
        yield from (((*place, index), *link) for index, link in enumerate(part.generate.links or ()))


def _rounds(path: KeyPath, part: Strict) -> Iterator[tuple[KeyPath, int]]:
    file, generator = getattr(part, "file", None), getattr(part, "generate", None)
    for of, keys in ((part, path), (file, (*path, "file"))):
        for key in ("round", "until"):
            if isinstance(value := getattr(of, key, None), int):
                yield (*keys, key), value
    if rounds := getattr(generator, "rounds", None):
        yield (*path, "generate", "rounds", 1), rounds[1]


def _late(path: KeyPath, part: Strict, horizon: int) -> Iterator[Problem]:
    for place, round_ in _rounds(path, part):
        if round_ > horizon:
            name = next(step for step in reversed(place) if isinstance(step, str))
            message = f"{name}: {round_} is after the horizon; allowed: 0 to {horizon}, or a larger time.rounds"
            yield Problem(place, message)


def _crash_problems(of_node: list[tuple[KeyPath, Crash]]) -> Iterator[Problem]:
    ordered = sorted(of_node, key=lambda entry: entry[1].round)
    for (before, earlier), (path, crash) in pairwise(ordered):
        if earlier.until is None:
            cure = f"stays down; give number {int(before[-1]) + 1} of the list an until: before {crash.round}"
        elif crash.round <= earlier.until:
            cure = f"recovers in round {earlier.until}; allowed: {earlier.until + 1} or later"
        else:
            continue
        message = f"{crash.node!r} cannot crash in round {crash.round}: it is down from round {earlier.round} on"
        yield Problem((*path, "round"), f"{message} by number {int(before[-1]) + 1} of the list, and {cure}")

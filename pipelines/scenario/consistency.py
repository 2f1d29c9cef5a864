"""Checks the calls and faults of a scenario: their nodes and links exist, and no round is after the horizon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from pipelines.contract.settings import Strict
from pipelines.errors import KeyPath, Problem, listed, nearest
from pipelines.scenario.faults import Crash, Fault
from pipelines.scenario.link_faults import LinkFaultSpec
from pipelines.scenario.overlay import OverlaySpec
from pipelines.scenario.workload import Join, WorkloadSpec

Call: TypeAlias = "tuple[KeyPath, Strict]"
_MAX_SEARCHED = 2000
_NODE_KEYS = (
    *((key, key) for key in ("at", "node", "to", "peer", "links", "groups", "link", "by")),
    ("from", "sender"), ("to", "receiver"),
)  # fmt: skip
"""Pairs of a scenario key that names nodes, and the attribute of the model that contains the names."""


def calls(workload: WorkloadSpec, faults: Sequence[Fault]) -> Iterator[Call]:
    """Yields the elements of `workload` and `faults`, each with its path in the scenario.

    An element is a listed call, the specification of a generator or a file of calls, or a fault.
    """
    for name in ("subscriptions", "publications", "joins", "moves", "calls"):
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
    links = _listed_links(overlay) if overlay is not None else None
    pairs = {frozenset(link) for link in links or ()}
    names = sorted({name for link in links or () for name in link})
    known, joined = set(names), dict[str, KeyPath]()
    crashes: dict[str, list[tuple[KeyPath, Crash]]] = {}
    for path, part in parts:
        if horizon is not None:
            yield from _late(path, part, horizon)
        unknown = [(place, name) for place, name in _nodes(path, part) if links and name not in known]
        for place, name in unknown:
            hint = nearest(name, names[:_MAX_SEARCHED])
            yield Problem(place, f"no link names the node {name!r};{hint} allowed: {listed(names)}")
        if isinstance(part, Join):
            yield from _join_problems(path, part, joined, pairs if links and not unknown else None)
        elif isinstance(part, LinkFaultSpec) and links and not unknown:
            yield from _link_problems(path, part, pairs)
        elif isinstance(part, Crash):
            crashes.setdefault(part.node, []).append((path, part))
    for of_node in crashes.values():
        yield from _crash_problems(of_node)


def _listed_links(overlay: OverlaySpec) -> list[tuple[str, str]] | None:
    # The names of nodes in overlays from files and generators are not known here; `pipelines.inputs` checks them.
    if overlay.links is None or not isinstance(overlay.clients, list) or not isinstance(overlay.servers, list):
        return None
    brokers = [(link[0], link[1]) for link in overlay.links]
    return brokers + [(one.name, one.at) for one in (*overlay.servers, *overlay.clients)]


def _nodes(path: KeyPath, part: Strict) -> Iterator[tuple[KeyPath, str]]:
    for key, attribute in _NODE_KEYS:
        yield from _names((*path, key), getattr(part, attribute, None))
    for source in ("file", "generate"):
        for key in ("nodes", "spare", "links"):
            if isinstance(value := getattr(getattr(part, source, None), key, None), list):
                yield from _names((*path, source, key), value)


def _names(path: KeyPath, value: object) -> Iterator[tuple[KeyPath, str]]:
    """Yields each string in `value` (a string or nested lists of strings), and the path of the string."""
    if isinstance(value, str):
        yield path, value
    for index, item in enumerate(value if isinstance(value, (list, tuple)) else ()):
        yield from _names((*path, index), item)


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


def _link_problems(path: KeyPath, fault: LinkFaultSpec, pairs: set[frozenset[str]]) -> Iterator[Problem]:
    for index, (a, b) in enumerate(fault.links or []):
        if frozenset((a, b)) not in pairs:
            message = f"no link joins {a!r} and {b!r}; linked with {a!r}: {_neighbours(a, pairs)}"
            yield Problem((*path, "links", index), message)


def _neighbours(node: str, pairs: set[frozenset[str]]) -> str:
    return listed(sorted(name for pair in pairs if node in pair for name in pair if name != node))


def _join_problems(
    path: KeyPath, join: Join, joined: dict[str, KeyPath], pairs: set[frozenset[str]] | None
) -> Iterator[Problem]:
    if join.node == join.to:
        yield Problem((*path, "to"), f"{join.node!r} cannot join at itself; allowed: a neighbour of {join.node!r}")
    elif pairs is not None and frozenset((join.node, join.to)) not in pairs:
        message = f"no link joins {join.node!r} and its join point {join.to!r}; allowed:"
        yield Problem((*path, "to"), f"{message} {_neighbours(join.node, pairs)}, or add the link to overlay.links")
    if joined.setdefault(join.node, path) != path:
        yield Problem((*path, "node"), f"{join.node!r} joins twice; allowed: one join for each node")


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

"""Consistency of the parts of a scenario: calls and faults name nodes of the overlay, and rounds before the horizon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from pipelines.contract.settings import Strict
from pipelines.errors import Problem, nearest
from pipelines.scenario.faults import (
    Crash,
    CrashGenerator,
    DrawnTimes,
    Fault,
    FaultGenerator,
    Pause,
    ReplaceGenerator,
)
from pipelines.scenario.link_faults import LinkFaultSpec, MessageFault, Partition, Replace
from pipelines.scenario.overlay import OverlaySpec
from pipelines.scenario.workload import (
    OTHER_CALLS,
    Join,
    JoinGenerator,
    ListedPublication,
    ListedSubscription,
    Move,
    PublicationFileSource,
    PublicationGenerator,
    SubscriptionFileSource,
    SubscriptionGenerator,
    WorkloadSpec,
)

Path: TypeAlias = "tuple[str | int, ...]"
Call: TypeAlias = "tuple[Path, Strict]"
_MAX_SEARCHED = 2000
_MAX_LISTED = 10


def calls(workload: WorkloadSpec, faults: Sequence[Fault]) -> Iterator[Call]:
    """Yields each part of `workload` and `faults` that can name nodes or rounds, with its path in the scenario."""
    for name in ("subscriptions", "publications", "joins", "moves", "calls"):
        part = getattr(workload, name)
        path: Path = ("workload", name)
        if isinstance(part, list):
            yield from (((*path, index), item) for index, item in enumerate(part))
        else:
            yield path, part
    yield from ((("faults", index), fault) for index, fault in enumerate(faults))


def call_problems(overlay: OverlaySpec | None, horizon: int | None, parts: Iterable[Call]) -> Iterator[Problem]:
    """Yields a problem for each unknown node, late round, missing link, repeated join and overlapping crash in `parts`.

    Node names are checked only against an overlay that lists its links, servers and clients. Without `horizon` rounds
    are
    not checked.
    """
    links = _listed_links(overlay) if overlay is not None else None
    pairs = {frozenset(link) for link in links or ()}
    names = sorted({name for link in links or () for name in link})
    known, joined = set(names), dict[str, Path]()
    crashes: dict[str, list[tuple[Path, Crash]]] = {}
    for path, part in parts:
        if horizon is not None:
            yield from _late(path, part, horizon)
        unknown = [(place, name) for place, name in _nodes(path, part) if links and name not in known]
        for place, name in unknown:
            hint = nearest(name, names[:_MAX_SEARCHED])
            yield Problem(place, f"no link names the node {name!r};{hint} allowed: {_listed(names)}")
        if isinstance(part, Join):
            yield from _join_problems(path, part, joined, pairs if links and not unknown else None)
        elif isinstance(part, LinkFaultSpec) and links and not unknown:
            yield from _link_problems(path, part, pairs)
        elif isinstance(part, Crash):
            crashes.setdefault(part.node, []).append((path, part))
    for of_node in crashes.values():
        yield from _crash_problems(of_node)


def _listed_links(overlay: OverlaySpec) -> list[tuple[str, str]] | None:
    # Files and generators name nodes that only `pipelines.inputs` knows.
    if overlay.links is None or not isinstance(overlay.clients, list) or not isinstance(overlay.servers, list):
        return None
    brokers = [(link[0], link[1]) for link in overlay.links]
    return brokers + [(one.name, one.at) for one in (*overlay.servers, *overlay.clients)]


def _nodes(path: Path, part: Strict) -> Iterator[tuple[Path, str]]:
    if isinstance(part, (ListedSubscription, ListedPublication)):
        yield (*path, "at"), part.at
    elif isinstance(part, Join):
        yield (*path, "node"), part.node
        yield (*path, "to"), part.to
    elif isinstance(part, Move):
        yield from (((*path, key), getattr(part, key)) for key in ("at", "to"))
    elif isinstance(part, OTHER_CALLS):
        yield from (((*path, key), getattr(part, key)) for key in ("at", "peer") if hasattr(part, key))
    elif isinstance(part, (Crash, Pause)):
        yield (*path, "node"), part.node
    elif isinstance(part, (LinkFaultSpec, Replace)):
        yield from _link_nodes(path, part)
    elif isinstance(part, FaultGenerator):
        yield from _generator_nodes((*path, "generate"), part.generate)
    elif isinstance(part, (SubscriptionFileSource, PublicationFileSource)) and isinstance(part.file.nodes, list):
        yield from (((*path, "file", "nodes", index), name) for index, name in enumerate(part.file.nodes))
    elif isinstance(part, (SubscriptionGenerator, PublicationGenerator, JoinGenerator)) and (
        isinstance(part.generate.nodes, list)
    ):
        yield from (((*path, "generate", "nodes", index), name) for index, name in enumerate(part.generate.nodes))


def _link_nodes(path: Path, fault: LinkFaultSpec | Replace) -> Iterator[tuple[Path, str]]:
    if isinstance(fault, Replace):
        for key, ends in (("link", fault.link), ("by", fault.by)):
            yield from (((*path, key, index), name) for index, name in enumerate(ends))
        return
    if isinstance(fault, MessageFault):
        named = (("from", fault.sender), ("to", fault.receiver))
        yield from (((*path, key), name) for key, name in named if name is not None)
    groups = fault.groups if isinstance(fault, Partition) else None
    for key, lists in (("links", fault.links), ("groups", groups)):
        for number, names in enumerate(lists or []):
            yield from (((*path, key, number, index), name) for index, name in enumerate(names))


def _generator_nodes(
    path: Path, generator: CrashGenerator | DrawnTimes | ReplaceGenerator
) -> Iterator[tuple[Path, str]]:
    for key in ("nodes", "spare", "links"):
        listed = getattr(generator, key, None)
        for index, item in enumerate(listed if isinstance(listed, list) else []):
            if isinstance(item, str):
                yield (*path, key, index), item
            else:
                yield from (((*path, key, index, end), name) for end, name in enumerate(item))


def _rounds(path: Path, part: Strict) -> Iterator[tuple[Path, int]]:
    if isinstance(
        part, (ListedSubscription, ListedPublication, Join, Move, *OTHER_CALLS, Crash, Pause, LinkFaultSpec, Replace)
    ):
        yield (*path, "round"), part.round
        if isinstance(part, (ListedSubscription, Crash, Pause, LinkFaultSpec)) and part.until is not None:
            yield (*path, "until"), part.until
    elif isinstance(part, (SubscriptionFileSource, PublicationFileSource)) and isinstance(part.file.round, int):
        yield (*path, "file", "round"), part.file.round
    elif isinstance(part, (SubscriptionGenerator, PublicationGenerator, JoinGenerator, FaultGenerator)) and (
        part.generate.rounds
    ):
        yield (*path, "generate", "rounds", 1), part.generate.rounds[1]


def _late(path: Path, part: Strict, horizon: int) -> Iterator[Problem]:
    for place, round_ in _rounds(path, part):
        if round_ > horizon:
            name = next(step for step in reversed(place) if isinstance(step, str))
            message = f"{name}: {round_} is after the horizon; allowed: 0 to {horizon}, or a larger time.rounds"
            yield Problem(place, message)


def _link_problems(path: Path, fault: LinkFaultSpec, pairs: set[frozenset[str]]) -> Iterator[Problem]:
    for index, (a, b) in enumerate(fault.links or []):
        if frozenset((a, b)) not in pairs:
            message = f"there is no link between {a!r} and {b!r}; linked with {a!r}: {_neighbours(a, pairs)}"
            yield Problem((*path, "links", index), message)


def _neighbours(node: str, pairs: set[frozenset[str]]) -> str:
    return _listed(sorted(name for pair in pairs if node in pair for name in pair if name != node))


def _join_problems(
    path: Path, join: Join, joined: dict[str, Path], pairs: set[frozenset[str]] | None
) -> Iterator[Problem]:
    if join.node == join.to:
        yield Problem((*path, "to"), f"{join.node!r} cannot join at itself; allowed: a neighbour of {join.node!r}")
    elif pairs is not None and frozenset((join.node, join.to)) not in pairs:
        message = f"there is no link between {join.node!r} and its join point {join.to!r}; allowed:"
        yield Problem((*path, "to"), f"{message} {_neighbours(join.node, pairs)}, or add the link to overlay.links")
    if joined.setdefault(join.node, path) != path:
        yield Problem((*path, "node"), f"{join.node!r} joins twice; allowed: one join for each node")


def _crash_problems(of_node: list[tuple[Path, Crash]]) -> Iterator[Problem]:
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


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more

"""Removes parts of a scenario. The removable parts are called atoms: faults, calls and nodes.

A removed node is contracted into its nearest neighbour: each other neighbour of the removed node gets a link to the
nearest neighbour. The latency of this link is the sum of the latencies of the two links that it replaces. So a
connected overlay stays connected, and a tree stays a tree. The calls and faults of a removed node are removed, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.experiment.listed import Parts, link_latencies

_CALLS = {"publication": "publications", "subscription": "subscriptions", "join": "joins", "call": "calls"}
_ATTACHED = ("servers", "clients")
KINDS = ("fault", *_CALLS, "node")
"""The kinds of atoms, in the order in which shrinking removes them."""
_DRAWN = ("loss", "delay", "duplicate")


class Atom(NamedTuple):
    """A removable part of a scenario; ``key`` is the index of a fault or call in its list, or the name of a node."""

    kind: str
    key: int | str


def with_streams(parts: Parts) -> Parts:
    """Returns the scenario with a separate random stream for each fault that draws random numbers.

    With separate streams, the draws of a fault do not change when other faults are removed.
    """
    faults = [
        {**fault, "stream": fault.get("stream", place)} if fault["kind"] in _DRAWN else fault
        for place, fault in enumerate(parts.get("faults", ()))
    ]
    return {**parts, "faults": faults}


def atoms_of(parts: Parts, kind: str) -> list[Atom]:
    """Returns the atoms of a kind in the order of the scenario."""
    if kind == "node":
        return [Atom(kind, name) for name in _names(parts["overlay"])]
    rows = parts.get("faults", ()) if kind == "fault" else parts.get("workload", {}).get(_CALLS[kind], ())
    return [Atom(kind, place) for place in range(len(rows))]


def without(parts: Parts, removed: Collection[Atom]) -> Parts | None:
    """Returns scenario ``parts`` without the ``removed`` atoms, or None if the remaining overlay is invalid."""
    nodes = [str(atom.key) for atom in removed if atom.kind == "node"]
    overlay = _without_nodes(parts["overlay"], nodes)
    if overlay is None:
        return None
    gone = {kind: {atom.key for atom in removed if atom.kind == kind} for kind in KINDS}
    pairs = {frozenset(link[:2]) for link in overlay.get("links", ())}
    workload = {
        name: [
            call for place, call in enumerate(parts.get("workload", {}).get(name, ()))
            if place not in gone[kind] and _is_possible(call, nodes, pairs)
        ]
        for kind, name in _CALLS.items()
    }  # fmt: skip
    kept = [fault for place, fault in enumerate(parts.get("faults", ())) if place not in gone["fault"]]
    faults = [fitting for fault in kept if (fitting := _fitting(fault, nodes, pairs)) is not None]
    workload = {name: calls for name, calls in workload.items() if calls}
    others = {"overlay": overlay, "workload": workload, "faults": faults}
    return {name: part for name, part in {**parts, **others}.items() if part}


def _names(overlay: Mapping[str, Any]) -> list[str]:
    if "nodes" in overlay:
        return [f"{overlay['nodes'].get('prefix', 'N')}{number + 1}" for number in range(overlay["nodes"]["count"])]
    named = dict.fromkeys(name for link in overlay.get("links", ()) for name in link[:2])
    return [*overlay.get("order", named), *(one["name"] for key in _ATTACHED for one in overlay.get(key, ()))]


def _without_nodes(overlay: Parts, removed: Sequence[str]) -> Parts | None:
    if not removed:
        return overlay
    if "nodes" in overlay:  # the nodes are numbered 1 to count, so only those with the highest numbers can be removed
        names, n_left = _names(overlay), overlay["nodes"]["count"] - len(removed)
        is_end = n_left > 0 and set(names[n_left:]) == set(removed)
        return {**overlay, "nodes": {**overlay["nodes"], "count": n_left}} if is_end else None
    if "links" not in overlay or overlay.get("join_root") in removed:
        return None
    around: dict[str, dict[str, int]] = {name: {} for name in _names(overlay)}
    for a, b, *latency in overlay["links"]:
        around[a][b], around[b][a] = (latency[0], latency[-1]) if latency else (1, 1)
    attached = {key: [one for one in overlay.get(key, ()) if one["name"] not in removed] for key in _ATTACHED}
    edges = {one["name"]: one["at"] for of_key in attached.values() for one in of_key}
    for name in (name for name in sorted(removed) if around[name]):
        heir = _contracted(around, name)
        edges = {one: heir if at == name else at for one, at in edges.items()}
    place = {name: number for number, name in enumerate(around)}
    links = [
        [a, b, *link_latencies(there, around[b][a])]
        for a in around for b, there in around[a].items() if place[a] < place[b]
    ]  # fmt: skip
    if not links:
        return None
    order = [name for name in place if around[name]]
    kept: Parts = {**overlay, "links": links, "order": order}
    kept |= {key: [{**one, "at": edges[one["name"]]} for one in of_key] for key, of_key in attached.items()}
    if list(dict.fromkeys(name for link in links for name in link[:2])) == order:
        del kept["order"]
    return {name: part for name, part in kept.items() if part}


def _contracted(around: dict[str, dict[str, int]], name: str) -> str:
    """Contracts node ``name`` into its nearest neighbour, and returns the name of this neighbour.

    ``around`` maps each node to its neighbours, and each neighbour to the latency of the link in this direction.
    """
    there, back = around[name], {other: around[other].pop(name) for other in around[name]}
    heir = min(there, key=lambda other: there[other] + back[other])
    for other in there:
        if other != heir:
            around[heir][other] = min(back[heir] + there[other], around[heir].get(other, 2**31))
            around[other][heir] = min(back[other] + there[heir], around[other].get(heir, 2**31))
    around[name] = {}
    return heir


def _is_possible(call: Mapping[str, Any], removed: Collection[str], pairs: Collection[frozenset[str]]) -> bool:
    """Returns whether a call is possible after the nodes in ``removed`` are removed.

    A join needs the link between the joining node and its join point. ``pairs`` has the ends of each remaining link.
    """
    if "node" in call:
        return frozenset((call["node"], call["to"])) in pairs
    return call["at"] not in removed and call.get("peer") not in removed


def _fitting(fault: Parts, removed: Collection[str], pairs: Collection[frozenset[str]]) -> Parts | None:
    """Deletes the nodes in ``removed``, and all links that are not in ``pairs``, from the lists of a fault.

    Returns None if a list becomes empty, or if another field of the fault names a removed node.
    """
    if any(fault.get(key) in removed for key in ("node", "from", "to")):
        return None
    if fault["kind"] == "replace":
        return None if {*fault["link"], *fault["by"]} & set(removed) else fault
    fault = dict(fault)
    if fault.get("links") is not None:
        fault["links"] = [link for link in fault["links"] if frozenset(link) in pairs]
    if fault.get("groups") is not None:
        groups = [[name for name in group if name not in removed] for group in fault["groups"]]
        fault["groups"] = [group for group in groups if group]
    return None if [] in (fault.get("links"), fault.get("groups")) else fault

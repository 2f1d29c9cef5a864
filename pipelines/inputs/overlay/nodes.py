"""Which nodes of an overlay take part in a workload."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pipelines.contract.run_inputs import Overlay
from pipelines.contract.settings import Nodes
from pipelines.errors import Problem, WorkloadError, nearest
from pipelines.inputs import draws_numpy

Ints: TypeAlias = npt.NDArray[np.int64]
Place: TypeAlias = tuple[str | int, ...]

_MAX_SEARCHED = 2000


def ids_by_name(overlay: Overlay) -> dict[str, int]:
    """Returns the id of each node's name."""
    return {name: node for node, name in enumerate(overlay.names)}


def unknown_node(name: str, overlay: Overlay) -> str:
    """Returns the message for a name that the overlay lacks."""
    shown = ", ".join(overlay.names[:5]) + (", ..." if len(overlay.names) > 5 else "")
    return f"no node {name!r} in the overlay, which has {len(overlay.names)} nodes ({shown});" + (
        nearest(name, overlay.names[:_MAX_SEARCHED]) or " name one of them"
    )


def leaves(overlay: Overlay) -> Ints:
    """Returns the nodes with at most one link, in order of their ids."""
    degree = np.bincount(np.concatenate([overlay.a, overlay.b]), minlength=len(overlay.names))
    return np.flatnonzero(degree <= 1).astype(np.int64)


def choose_nodes(nodes: Nodes | Literal["inner"], overlay: Overlay, seed: int, purpose: str, place: Place) -> Ints:
    """Returns the ids of the chosen nodes.

    Args:
        nodes: Names (kept in their order), a number drawn without replacement, ``all`` (that may have
            applications), ``leaves``, ``brokers``, ``servers``, ``clients`` or ``inner``, the brokers without clients
            (these in order of ids).
        overlay: The run's overlay.
        seed: The run's seed.
        purpose: What the draw is for; each purpose draws its own nodes.
        place: Where the choice stands in the scenario.

    Raises:
        WorkloadError: A name is unknown or given twice, the overlay has too few nodes, or none of that sort.
    """
    if isinstance(nodes, list):
        return _named(nodes, overlay, place)
    those = overlay.applications
    count = len(those)
    if nodes == "all":
        return those
    if nodes == "leaves":
        return _some_leaves(overlay, place)
    if nodes == "brokers":
        return np.arange(overlay.n_brokers, dtype=np.int64)
    if nodes == "inner":
        return _some_inner(overlay, place)
    if nodes == "servers":
        return _some_servers(overlay, place)
    if nodes == "clients":
        return _some_clients(overlay, place)
    if nodes > count:
        raise WorkloadError(
            Problem(place, f"{nodes} nodes wanted, the overlay has {count}; give at most {count}, or all")
        )
    order = np.argsort(draws_numpy.bits(seed, purpose, those), kind="stable")
    return np.sort(those[order[:nodes]])


def _named(names: list[str], overlay: Overlay, place: Place) -> Ints:
    ids = ids_by_name(overlay)
    problems = [Problem((*place, i), unknown_node(name, overlay)) for i, name in enumerate(names) if name not in ids]
    first = {name: i for i, name in reversed(list(enumerate(names)))}
    problems += [
        Problem((*place, i), f"node {name!r} is named twice; name it once")
        for i, name in enumerate(names)
        if first[name] != i
    ]
    if not names:
        problems.append(Problem(place, "no node is named; name one, or give a number, all or leaves"))
    if problems:
        raise WorkloadError(*problems)
    return np.array([ids[name] for name in names], dtype=np.int64)


def _some_leaves(overlay: Overlay, place: Place) -> Ints:
    found = np.intersect1d(leaves(overlay), overlay.applications)
    if not len(found):
        raise WorkloadError(
            Problem(place, "the overlay has no leaves (nodes with one link); give names, a number, or all")
        )
    return found


def _some_inner(overlay: Overlay, place: Place) -> Ints:
    is_client = overlay.b >= overlay.first_client  # clients have the highest ids
    found = np.setdiff1d(np.arange(overlay.n_brokers, dtype=np.int64), overlay.a[is_client])
    if not len(found):
        raise WorkloadError(
            Problem(place, "every broker of the overlay has clients; allowed: names, all, or clients at fewer brokers")
        )
    return found


def _some_clients(overlay: Overlay, place: Place) -> Ints:
    if not overlay.n_clients:
        raise WorkloadError(
            Problem(place, "the overlay has no clients; list some in overlay.clients, or give names, a number, or all")
        )
    return np.arange(overlay.first_client, len(overlay.names), dtype=np.int64)


def _some_servers(overlay: Overlay, place: Place) -> Ints:
    if not overlay.n_servers:
        raise WorkloadError(
            Problem(place, "the overlay has no servers; list some in overlay.servers, or give names, a number, or all")
        )
    return np.arange(overlay.n_brokers, overlay.first_client, dtype=np.int64)

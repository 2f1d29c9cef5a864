"""Overlays from the package ``topohub``: the networks that it carries, by name."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import as_file, files

import numpy as np
import topohub

from pipelines.errors import nearest
from pipelines.inputs.overlay.geo import propagation_ms
from pipelines.inputs.overlay.weighted import ContentError, WeightedGraph, merge_parallel, unique_names


@lru_cache(maxsize=1)
def hub_names() -> tuple[str, ...]:
    """Returns the names of all networks of the installed topohub, sorted, e.g. ``topozoo/Abilene``."""
    with as_file(files("topohub") / "data") as data:
        return tuple(sorted(path.relative_to(data).with_suffix("").as_posix() for path in data.rglob("*.json")))


@lru_cache(maxsize=256)
def load_hub(name: str) -> WeightedGraph:
    """Returns a network of topohub; latencies by the length of its links.

    Args:
        name: One of `hub_names`.

    Raises:
        ContentError: There is no such network.
    """
    names = hub_names()
    if name not in names:
        raise ContentError(_unknown(name, names), "name")
    topology = topohub.get(name)
    ids = [str(node["id"]) for node in topology["nodes"]]
    index = {node_id: i for i, node_id in enumerate(ids)}
    ends = [(index[str(edge["source"])], index[str(edge["target"])]) for edge in topology["edges"]]
    km = np.array([edge["dist"] for edge in topology["edges"]], dtype=np.float64)
    return merge_parallel(unique_names([node.get("name") for node in topology["nodes"]], ids), ends, propagation_ms(km))


def _unknown(name: str, names: tuple[str, ...]) -> str:
    by_last = {known.rpartition("/")[2].lower(): known for known in names}
    same = by_last.get(name.rpartition("/")[2].lower())
    hint = f" did you mean {same!r}?" if same else nearest(name, names)
    groups = ", ".join(dict.fromkeys(known.partition("/")[0] for known in names))
    return f"topohub has no network {name!r};{hint} its {len(names)} networks are in {groups}, e.g. {names[-1]!r}"

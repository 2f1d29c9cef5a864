"""Where the nodes of an overlay are on the earth, as far as its source says so; pictures are drawn by it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import topohub

from pipelines.files import find_file
from pipelines.inputs.overlay.files import file_positions
from pipelines.inputs.overlay.weighted import unique_names
from pipelines.scenario.overlay import OverlaySpec

Place = tuple[float, float]


def node_positions(spec: OverlaySpec, beside: Path | None) -> Mapping[str, Place]:
    """Returns longitude and latitude of nodes by name, in degrees; nodes without coordinates are left out.

    Args:
        spec: What the scenario says; networks of topohub and files with attributes of nodes have coordinates.
        beside: The scenario file's folder, where relative paths are looked up first.

    Raises:
        DataFileError: The file is gone.
        ContentError: It cannot be read.
    """
    if spec.topohub is not None:
        nodes = topohub.get(spec.topohub.name)["nodes"]
        names = unique_names([node.get("name") for node in nodes], [str(node["id"]) for node in nodes])
        found = {name: node.get("pos") for name, node in zip(names, nodes, strict=True)}
        return {name: (float(place[0]), float(place[1])) for name, place in found.items() if place}
    return {} if spec.file is None else file_positions(find_file(spec.file.path, beside), spec.file)

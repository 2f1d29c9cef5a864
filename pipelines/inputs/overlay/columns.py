"""Names that a scenario gives for an overlay file: columns of an edge list, attributes of nodes and links, a unit."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.inputs.overlay.geo import fibre_ms
from pipelines.inputs.overlay.weighted import Floats
from pipelines.scenario.overlay import LatencyUnit

_MS_OF = {"us": 0.001, "ms": 1.0, "s": 1000.0}


@dataclass(frozen=True)
class Columns:
    """Which columns and attributes mean what.

    Attributes:
        src: One end of a link; None: found by its title.
        dst: The other end; None: found by its title.
        latency: Its latency; None: the file says none.
        unit: What the latency is counted in; ``km``: it is the length of the link.
        names: The attribute that names the nodes; None: ``label``, else ``name``, else their ids.
    """

    src: str | None = None
    dst: str | None = None
    latency: str | None = None
    unit: LatencyUnit = "ms"
    names: str | None = None

    def in_ms(self, values: Floats) -> Floats:
        """Returns latencies in milliseconds."""
        return fibre_ms(values) if self.unit == "km" else values * _MS_OF[self.unit]

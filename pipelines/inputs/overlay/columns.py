"""What a scenario names in an overlay file: columns of an edge list, an edge attribute of GraphML, and its unit."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.inputs.overlay.geo import fibre_ms
from pipelines.inputs.overlay.weighted import Floats
from pipelines.spec.overlay import LatencyUnit

_MS_OF = {"us": 0.001, "ms": 1.0, "s": 1000.0}


@dataclass(frozen=True)
class Columns:
    """Which columns mean what.

    Attributes:
        src: One end of a link.
        dst: The other end.
        latency: Its latency; None: the file says none.
        unit: What the latency is counted in; ``km``: it is the length of the link.
    """

    src: str
    dst: str
    latency: str | None = None
    unit: LatencyUnit = "ms"

    def in_ms(self, values: Floats) -> Floats:
        """Returns latencies in milliseconds."""
        return fibre_ms(values) if self.unit == "km" else values * _MS_OF[self.unit]

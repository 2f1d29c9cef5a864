"""What flooding cannot run with: nodes that join."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.errors import Problem


def problems(settings: Any, overlay: Overlay, workload: Workload, faults: Faults) -> Iterator[Problem]:  # noqa: ANN401
    """Yields what the protocol cannot run with: it is played with all faults and any overlay.

    Args:
        settings: A `FloodingSettings`.
        overlay: The nodes and their links.
        workload: Its calls.
        faults: Its faults.
    """
    for index in range(len(workload.join)):
        message = "nodes of protocol flooding are linked from the start; leave joins out"
        yield Problem(("workload", "joins", index), message)

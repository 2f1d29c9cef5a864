"""From the faults of a scenario to the tables of one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from pipelines.errors import FaultError, Problem
from pipelines.faults.tables import CRASH, Faults
from pipelines.overlay.graph import Overlay
from pipelines.scenario.faults_spec import Fault
from pipelines.workload.nodes import ids_by_name, unknown_node


def build_faults(listed: Sequence[Fault], *, overlay: Overlay) -> Faults:
    """Returns what goes wrong in one run.

    Args:
        listed: The faults of the scenario.
        overlay: The run's overlay, whose node ids the tables carry.

    Raises:
        FaultError: All that is wrong, each problem at its place in the scenario.
    """
    problems = list(_unknown(listed, overlay))
    if problems:
        raise FaultError(*problems)
    ids = ids_by_name(overlay)
    rows = sorted((fault.round, ids[fault.node], fault.until) for fault in listed)
    return Faults(crash=pa.table([[row[i] for row in rows] for i in (1, 0, 2)], schema=CRASH))


def _unknown(listed: Sequence[Fault], overlay: Overlay) -> Iterator[Problem]:
    names = frozenset(overlay.names)
    for i, fault in enumerate(listed):
        if fault.node not in names:
            yield Problem(("faults", i, "node"), unknown_node(fault.node, overlay))

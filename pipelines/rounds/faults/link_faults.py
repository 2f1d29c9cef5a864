"""Link faults, which node programs apply (`udfs.nodes.link_faults`): what becomes of messages on their way.

The times of all faults are cut where any of them begins or ends, so that a message meets at most one row: an array of
the faults that may strike it.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.inputs.faults.overlaps import cut_times

_FAULT = ("effect", "kinds", "rate", "salt", "low", "high", "first_round", "last_round")
_SIDE = ("run_id", "node_id", "round", "end_round", "side")


class LinkFaults:
    """The link faults of all runs.

    Attributes:
        on_link: ``run_id, src, dst, round, end_round, faults``: those of a link, cut into times; None: there are none.
        anywhere: ``run_id, round, end_round, faults``: those of all links; None: there are none.
        sides: ``run_id, node_id, round, end_round, side``: the sides of partitions; None: there are none.
        duplicating: The ids of the runs in which a message may arrive twice: there every other message id is free for
            copies. A run's ids do not depend on the other runs of its job.
    """

    def __init__(self, fault: pa.Table, side: pa.Table) -> None:
        """Cuts the times of the faults.

        Args:
            fault: `Inputs.link_fault`.
            side: `Inputs.side`.
        """
        is_on_link = pc.is_valid(fault["src"])
        self.on_link = _cut(fault.filter(is_on_link), ("run_id", "src", "dst"))
        self.anywhere = _cut(fault.filter(pc.invert(is_on_link)), ("run_id",))
        self.sides = side.select(_SIDE) if len(side) else None
        self.duplicating = pc.unique(fault.filter(pc.equal(fault["effect"], "duplicate"))["run_id"])

    @property
    def may_duplicate(self) -> bool:
        """Whether a message may arrive twice in any run."""
        return len(self.duplicating) > 0


def _cut(fault: pa.Table, keys: tuple[str, ...]) -> pa.Table | None:
    """Returns faults cut into times; None where there are none."""
    return cut_times(fault, keys, _FAULT) if len(fault) else None

"""Link faults, which node programs apply (`udfs.nodes.link_faults`): what becomes of messages on their way.

The times of all faults are cut where any of them begins or ends, so that a message meets at most one row: an array of
the faults that may strike it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_FAULT = ("effect", "kinds", "rate", "salt", "low", "high", "first_round", "last_round")
_SIDE = ("run_id", "node_id", "round", "end_round", "side")


def cut_times(fault: pa.Table, keys: Sequence[str], fields: Sequence[str]) -> pa.Table:
    """Returns for each time between two changes which faults there are.

    Args:
        fault: One row a fault of an entity, from ``round`` on and before ``end_round``; they may overlap.
        keys: Columns that name the entity, whole numbers.
        fields: Columns that say what the fault is.

    Returns:
        ``keys, round, end_round, faults``: one row a time of an entity in which the same faults hold, none for times
        without any; ``faults`` is an array of structs with the fields, in the order of the rows. Sorted by keys and
        round.
    """
    n_rows = len(fault)
    entity = [fault[name].to_numpy() for name in keys]
    time = np.concatenate([fault[name].to_numpy() for name in ("round", "end_round")])
    points = np.stack([*(np.tile(column, 2) for column in entity), time], axis=1)
    change, place = np.unique(points, axis=0, return_inverse=True)
    first, last = place.reshape(2, n_rows)
    n_met = last - first
    row = np.repeat(np.arange(n_rows), n_met)
    begin = np.arange(len(row)) - np.repeat(np.cumsum(n_met) - n_met, n_met) + np.repeat(first, n_met)
    order = np.argsort(begin, kind="stable")
    found, start = np.unique(begin[order], return_index=True)
    columns = {name: change[found, column] for column, name in enumerate(keys)}
    columns |= {"round": change[found, -1], "end_round": change[found + 1, -1]}
    rows = fault.select(list(fields)).take(pa.array(row[order], pa.int64()))
    struct = pa.StructArray.from_arrays([rows[name].combine_chunks() for name in fields], names=list(fields))
    offsets = pa.array(np.append(start, len(row)), pa.int32())
    return pa.table({**columns, "faults": pa.ListArray.from_arrays(offsets, struct)})


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

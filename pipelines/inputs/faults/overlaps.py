"""Splits overlapping fault intervals: a message joins exactly one row, which lists every fault active in its round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


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

"""Exports a run as a history of operations, in the format that checkers such as Jepsen's read.

The operations are ``publish`` at the source and ``deliver`` at the subscriber. Each operation has two consecutive
entries, ``invoke`` and ``ok``. The ``ok`` of a publication does not mean that the publication was confirmed: a
publisher does not wait for the confirmation. Each node is a process. In a round, a node delivers before it publishes.
Crashes and recoveries of nodes are entries of type ``info`` of process ``nemesis``. They precede the operations of the
round.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from heapq import merge
from operator import itemgetter
from typing import Any

from pipelines.sql.differences import node_names
from pipelines.sql.query import StoreReader

_EVENT = """
with taken as (
  select run_id, dst, source, source_seq, due_round, min(message_id) as message_id
  from message
  where fate = 'delivered' and run_id = {run}
  group by run_id, dst, source, source_seq, due_round
)
select d.round, 0 as is_call, t.message_id as position, d.subscriber as process, 'deliver' as f, d.source, d.source_seq,
  cast(null as string) as topic, cast(null as string) as content, cast(null as string) as guarantee,
  cast(null as array<string>) as keys
from delivery d
left join taken t on t.run_id = d.run_id and t.dst = d.subscriber and t.source = d.source
  and t.source_seq = d.source_seq and t.due_round = d.round
where d.run_id = {run}
union all
select issued_round as round, 1 as is_call, source_seq as position, source as process, 'publish' as f, source,
  source_seq, topic, content, guarantee, keys
from publication
where run_id = {run}
"""
_FAULT = """
select round, kind, node_id from fault_event
where run_id = {run} and kind in ('crash', 'recovery') and node_id is not null
order by round, kind desc, node_id
"""


def jepsen_history(reader: StoreReader, run_id: int) -> Iterator[dict[str, Any]]:
    """Yields the entries of a run, sorted by round and, within a round, by the execution order of each node.

    Yields:
        ``index`` from 0, ``type`` (invoke, ok or info), ``process`` (node id, or ``nemesis``), ``node`` (node name),
        ``f`` (publish, deliver, crash or recovery), ``value``, and ``time`` in nanoseconds. The value of a publication
        consists of source, source name, call number, topic, content, guarantee and keys. The value of a delivery
        consists of source, source name and call number; in its ``invoke`` entry it is null. The value of a fault
        consists of the id and the name of the node.

    Raises:
        QueryError: The run does not exist.
    """
    names = node_names(reader, run_id)
    [run] = reader.sql(f"select round_ms from run where run_id = {run_id}").collect()  # noqa: S608 - a number
    rows = reader.sql(_EVENT.format(run=run_id)).toArrow().to_pylist()
    rows.sort(key=lambda row: (row["round"], row["is_call"], row["position"] is None, row["position"], row["process"]))
    of_fault = {"type": "info", "process": "nemesis", "node": None}
    faults = [
        (row.round, of_fault | {"f": row.kind, "value": {"node_id": row.node_id, "node": names[row.node_id]}})
        for row in reader.sql(_FAULT.format(run=run_id)).collect()
    ]
    operations = (entry for row in rows for entry in _operation(row, names))
    for index, (at, entry) in enumerate(merge(faults, operations, key=itemgetter(0))):
        yield {"index": index, **entry, "time": round(at * run.round_ms * 1e6)}


def _operation(row: Mapping[str, Any], names: Mapping[int, str]) -> Iterator[tuple[int, dict[str, Any]]]:
    value = {"source": row["source"], "source_name": names[row["source"]], "seq": row["source_seq"]}
    if row["is_call"]:
        value |= {name: row[name] for name in ("topic", "guarantee", "keys")}
        value["content"] = None if row["content"] is None else json.loads(row["content"])
    head = {"process": row["process"], "node": names[row["process"]], "f": row["f"]}
    yield row["round"], {"type": "invoke", **head, "value": value if row["is_call"] else None}
    yield row["round"], {"type": "ok", **head, "value": value}

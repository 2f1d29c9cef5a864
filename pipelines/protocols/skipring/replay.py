"""The detector of legitimate states over a store: what `udfs.skipring.replay` tells of each run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from pipelines.contract.audit import Reader
from pipelines.contract.protocol import ComputedView
from udfs.skipring import replay
from udfs.skipring.legitimate import KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KINDS = ", ".join(f"'{kind}'" for kind in KINDS)
HISTORY = f"""
with configurations as (
  select run_id, array_sort(collect_list(
    struct(round, node_id, topic, wants, label, `left`, `right`, ring, slots))) as configurations
  from state_configuration_change
  group by run_id
), databases as (
  select run_id, array_sort(collect_list(struct(round, node_id, topic, label, subscriber, is_tuple))) as databases
  from state_database_change
  group by run_id
), crashes as (
  select run_id, array_sort(collect_list(struct(round, node_id))) as crashes
  from fault_event
  where kind = 'crash'
  group by run_id
), reports as (
  select run_id, array_sort(collect_list(
    struct(due_round as round, cast(get_json_object(body, '$.peer') as bigint) as peer))) as reports
  from message
  where kind = 'NODE_DOWN' and fate = 'delivered'
  group by run_id
), messages as (
  select run_id, array_sort(collect_list(
    struct(message_id, kind, src, dst, sent_round, due_round, get_json_object(body, '$.topic') as topic, body)
  )) as messages
  from sent_message
  where kind in ({_KINDS}) and fate <> 'lost_link'
  group by run_id
), supervisors as (
  select run_id, array_sort(collect_list(struct(node_id, name))) as supervisors
  from node
  where role = 'supervisor'
  group by run_id
), ends as (
  select run_id, max(case when fate = 'in_flight' then sent_round else due_round end) as last_round
  from sent_message
  group by run_id
)
select r.run_id, coalesce(e.last_round, 0) as last_round, c.configurations, d.databases, f.crashes, p.reports,
  m.messages, s.supervisors, cast(get_json_object(r.parameters, "$['protocol.timeout_interval']") as bigint)
    + cast(get_json_object(r.parameters, "$['protocol.max_delay']") as bigint) as interval_rounds
from run r
join supervisors s on s.run_id = r.run_id
left join ends e on e.run_id = r.run_id
left join configurations c on c.run_id = r.run_id
left join databases d on d.run_id = r.run_id
left join crashes f on f.run_id = r.run_id
left join reports p on p.run_id = r.run_id
left join messages m on m.run_id = r.run_id
"""  # noqa: S608 - built of constants
"""The history of each run as the detector reads it."""

Play = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def convergence(reader: Reader) -> DataFrame:
    """Returns how the topics of each run converged, a row a disturbance: columns `replay.CONVERGENCE` and ``name``."""
    columns = [*replay.CONVERGENCE]
    columns.insert(columns.index("node_id") + 1, "name")
    named = reader.table("node").select("run_id", "node_id", "name")
    played = _played(reader, replay.convergence, replay.CONVERGENCE)
    return played.join(named, ["run_id", "node_id"], "left").select(columns)


def progress(reader: Reader) -> DataFrame:
    """Returns how far topics are in each round in which explicit state changed, columns `replay.PROGRESS`."""
    return _played(reader, replay.progress, replay.PROGRESS)


def violations(reader: Reader) -> DataFrame:
    """Returns the breaches of topics after they were clean, columns `replay.BROKEN`."""
    return _played(reader, replay.violations, replay.BROKEN)


def _played(reader: Reader, play: Play, columns: Mapping[str, pa.DataType]) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema  # loads PySpark

    return reader.sql(HISTORY).mapInArrow(play, from_arrow_schema(pa.schema(list(columns.items()))))


_TOPIC = {"topic": "the topic", "n_subscribers": "its subscribers that are up"}
_CONVERGENCE = ComputedView(
    """When was the ring of each topic legitimate, and did it stay so?
One row per run, topic and disturbance. Played again from state_configuration_change, state_database_change and
sent_message.""",
    convergence,
    {
        **_TOPIC,
        "disturbance": "number of the disturbance, from 0: the start",
        "round": "round of the disturbance",
        "cause": "start, subscribe (a subscriber joins), unsubscribe (one leaves) or crash",
        "node_id": "node that joined, left or crashed; null: the start",
        "n_configurations": "changes of what other nodes hold, until the next disturbance",
        "explicit_round": "first round from which the state of the nodes is that of the skip ring; null: not before the"
        " next disturbance, or the end",
        "clean_round": "first round from which no message in flight contradicts it either (rule K9); null: not"
        " before the next disturbance, or the end",
        "changed_round": "first round after clean_round in which an explicit edge changed; null: none (closure)",
        "problem": "why the last round before the next disturbance, or the end, was not legitimate; null: it was",
        "is_last": "whether it is the last disturbance of the topic",
    },
)
_PROGRESS = ComputedView(
    """How many labels are wrong in each round, how many subscribers are recorded, and what is the diameter?
One row per run, topic and round in which explicit state changed; between two rows all stays as it is. Edges are those
between subscribers, without directions.""",
    progress,
    {
        **_TOPIC,
        "round": "round in which explicit state changed",
        "n_recorded": "subscribers in the database",
        "n_wrong_labels": "subscribers without a label, or with another one than in the database",
        "max_degree": "largest number of neighbours of a subscriber",
        "n_edges": "edges",
        "diameter": "most hops between two subscribers; null: some do not reach each other, or there are more than"
        " 500 and some labels are wrong",
    },
)
VIEWS = {"convergence": _CONVERGENCE, "convergence_round": _PROGRESS}

"""Storage of repositories, and the buffers of publishers (sections 3.5, 3.6; rules P1 to P5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import FOUND, Evidence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REPEATED = """
select run_id, cast(null as bigint) as round, node_id, source, source_seq,
  concat('stored ', count(1), ' times on topic ', topic) as detail
from stored_message
group by run_id, node_id, topic, source, source_seq
having count(1) > 1
"""

UNORDERED = """
with numbered as (
  select *, row_number() over (
    partition by run_id, node_id, topic, source, incarnation order by seq) as place
  from stored_message
  where is_filled
)
select run_id, cast(null as bigint) as round, node_id, source, source_seq,
  concat('number ', n, ' of its publisher is stored on topic ', topic, ' as number ', place) as detail
from numbered
where n <> place
"""

GAPS = """
with counted as (
  select run_id, node_id, topic, count(1) as n_slots, max(seq) as last_seq
  from state_slot
  group by run_id, node_id, topic
)
select l.run_id, cast(null as bigint) as round, l.node_id, cast(null as bigint) as source,
  cast(null as bigint) as source_seq,
  concat('topic ', l.topic, ' has ', coalesce(c.n_slots, 0), ' numbers up to ', coalesce(c.last_seq, 0), ' of ',
    l.last_seq) as detail
from state_log l
left join counted c on c.run_id = l.run_id and c.node_id = l.node_id and c.topic = l.topic
where coalesce(c.n_slots, 0) <> l.last_seq or coalesce(c.last_seq, 0) <> l.last_seq
union all
select s.run_id, cast(null as bigint) as round, s.node_id, s.publisher as source, s.source_seq,
  concat('reserved number ', s.seq, ' of topic ', s.topic, ' lies before ', l.frontier, ', up to which all is filled')
    as detail
from state_slot s
join state_log l on l.run_id = s.run_id and l.node_id = s.node_id and l.topic = s.topic
where s.status = 'reserved' and s.seq <= l.frontier
"""

DROPPED = """
with life as (
  select run_id, node_id, max(coalesce(recovery_round, 9223372036854775807)) as first_round
  from node_recovery
  group by run_id, node_id
), kept as (
  select run_id, node_id, topic, publication.source_seq as source_seq from state_unstable
  union all
  select run_id, node_id, topic, publication.source_seq as source_seq from state_queued
), dropped as (
  select p.run_id, coalesce(p.topic, '') as topic, p.source, p.source_seq, p.issued_round
  from publication p
  left join life l on l.run_id = p.run_id and l.node_id = p.source
  left join kept k on k.run_id = p.run_id and k.node_id = p.source and k.source_seq = p.source_seq
  where k.source_seq is null and p.issued_round >= coalesce(l.first_round, 0)
), moved as (
  select run_id, node_id from control_call where kind in ('join', 'leave')
  union
  select run_id, peer as node_id from control_call where kind = 'remove'
)
select d.run_id, d.issued_round as round, d.source as node_id, d.source, d.source_seq,
  concat('its publisher keeps no copy, and ', n.name, ' does not have it') as detail
from dropped d
join topic_service v on v.run_id = d.run_id and v.topic = d.topic
join state_log l on l.run_id = d.run_id and l.topic = d.topic
join node n on n.run_id = l.run_id and n.node_id = l.node_id
left join moved m on m.run_id = l.run_id and m.node_id = l.node_id
left join stored_message s on s.run_id = d.run_id and s.node_id = l.node_id and s.topic = d.topic
  and s.source = d.source and s.source_seq = d.source_seq
where m.node_id is null and s.node_id is null
"""
"""What a publisher has published in this life and keeps no copy of, every member of the bundle has (rule P3).

Members that have joined, are asked to leave, or are removed, may lack what was dropped before or since.
"""


def stored_once(evidence: Evidence) -> DataFrame:
    """A repository stores a message once, each publisher's in order, and its numbers have no gaps."""
    found = evidence.sql(REPEATED).unionByName(evidence.sql(UNORDERED)).unionByName(evidence.sql(GAPS))
    return found.select(*FOUND)

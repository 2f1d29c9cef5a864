"""What may wait in a run that has settled: nothing, but for what nobody has who comes back (rule P23)."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract.audit import FOUND, Evidence

PENDING = """
with published as (
  select run_id, node_id, topic, publication.source as source, publication.source_seq as source_seq,
    'queued at its publisher' as detail
  from state_queued
  union all
  select run_id, node_id, topic, publication.source as source, publication.source_seq as source_seq,
    case when is_acknowledged then 'its publisher keeps a copy: it does not know that all members have it'
      else 'not acknowledged to its publisher' end as detail
  from state_unstable
), waiting as (
  select p.*
  from published p
  left join topic_owner o on o.run_id = p.run_id and o.topic = p.topic
  left join authorisation a on a.run_id = p.run_id and a.topic = p.topic and a.node_id = p.node_id
    and a.role = 'publisher' and a.end_round is null
  where o.topic is null or a.node_id is not null
  union all
  select run_id, node_id, topic, source, source_seq, concat('expected as number ', seq, ', and not delivered') as detail
  from state_expected
  union all
  select run_id, node_id, topic, cast(null as bigint) as source, cast(null as bigint) as source_seq,
    concat('number ', seq, ' is acknowledged, and not synced') as detail
  from state_unsynced
  union all
  select run_id, node_id, topic, publisher as source, source_seq,
    concat('number ', seq, ' is reserved for number ', n, ' of its publisher') as detail
  from state_slot
  where status = 'reserved'
  union all
  select run_id, node_id, topic, publisher as source, cast(null as bigint) as source_seq,
    concat('number ', n, ' of its publisher is at other members, and not here') as detail
  from state_lacking
  union all
  select run_id, node_id, topic, publisher as source, cast(null as bigint) as source_seq,
    concat('the recovery waits for number ', n, ' of its publisher') as detail
  from state_missed
  union all
  select run_id, node_id, topic, publisher as source, cast(null as bigint) as source_seq,
    concat('number ', n, ' of its publisher is on its way to the disk') as detail
  from state_storing
)
select w.run_id, s.last_round as round, w.node_id, w.source, w.source_seq, w.detail
from waiting w
join settled_run s on s.run_id = w.run_id and s.is_settled
join topic_service v on v.run_id = w.run_id and v.topic = w.topic and v.n_serving > 0 and v.n_gone = 0
  and v.n_gone_publishers = 0
left join (select distinct run_id, node_id from node_recovery where recovery_round is null) g
  on g.run_id = w.run_id and g.node_id = w.node_id
left join (
  select run_id, node_id from control_call where kind = 'leave'
  union
  select run_id, peer as node_id from control_call where kind = 'remove'
) l on l.run_id = w.run_id and l.node_id = w.node_id
where g.node_id is null and l.node_id is null
"""
"""Topics for which a repository or a publisher is gone for good may wait for what only that one had, see `HELD`."""

HELD = """
with away as (
  select run_id, node_id from node_recovery where recovery_round is null
  union
  select run_id, node_id from control_call where kind = 'leave'
  union
  select run_id, peer as node_id from control_call where kind = 'remove'
)
select w.run_id, s.last_round as round, w.node_id, w.publisher as source, h.source_seq,
  concat('number ', w.seq, ' is reserved for number ', w.n, ' of its publisher, which ', min(h.name), ' has') as detail
from state_slot w
join settled_run s on s.run_id = w.run_id and s.is_settled
join topic_service v on v.run_id = w.run_id and v.topic = w.topic and v.n_gone + v.n_gone_publishers > 0
join stored_message h on h.run_id = w.run_id and h.topic = w.topic and h.source = w.publisher
  and h.incarnation = w.incarnation and h.n = w.n and h.node_id <> w.node_id
left join away a on a.run_id = w.run_id and a.node_id = w.node_id
left join away b on b.run_id = h.run_id and b.node_id = h.node_id
where w.status = 'reserved' and a.node_id is null and b.node_id is null
group by w.run_id, s.last_round, w.node_id, w.publisher, h.source_seq, w.seq, w.n
"""
"""On such topics nobody waits for a message that another member has who is there (rules P18 and P19)."""


def nothing_pending(evidence: Evidence) -> DataFrame:
    """Long after the last thing from outside nobody waits for a message, an answer or a disk."""
    return evidence.sql(PENDING).unionByName(evidence.sql(HELD)).select(*FOUND)

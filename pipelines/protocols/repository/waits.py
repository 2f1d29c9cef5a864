"""Why a message waits, and where: what stories tell (`Protocol.waits`)."""

from __future__ import annotations

QUEUED = """
select q.run_id, q.node_id, q.publication.source as source, q.publication.source_seq as source_seq, case
    when s.is_refused then 'its publisher is refused: it is not registered for the topic'
    when s.repository is null or s.is_seeking then 'its publisher has no steering repository yet'
    else concat('its publisher waits for R2P-Recovery of ', n.name) end as reason
from state_queued q
left join state_steering s on s.run_id = q.run_id and s.node_id = q.node_id and s.topic = q.topic
  and s.role = 'publisher'
left join node n on n.run_id = s.run_id and n.node_id = s.repository
"""
"""Messages that are not published yet."""

UNSTABLE = """
with dropped as (
  select run_id, source, source_seq, min(struct(sent_round, dst)) as first
  from sent_message
  where kind = 'Message' and fate in ('lost_link', 'lost_crash')
  group by run_id, source, source_seq
), dismissed as (
  select run_id, topic, node_id, max(end_round) as last_round
  from authorisation
  where role = 'publisher'
  group by run_id, topic, node_id
  having count(end_round) = count(1)
)
select u.run_id, u.node_id, u.publication.source as source, u.publication.source_seq as source_seq, concat(
    case when d.node_id is not null
      then concat('its publisher was deregistered in round ', d.last_round, ', and no repository has stored it')
      else concat('its publisher has announced it in round ', u.sent_round, ', and no repository has acknowledged it')
    end,
    case when l.first is null then ''
      else concat('; its message of round ', l.first.sent_round, ' to ', n.name, ' was lost') end) as reason
from state_unstable u
left join dismissed d on d.run_id = u.run_id and d.topic = u.topic and d.node_id = u.node_id
left join dropped l on l.run_id = u.run_id and l.source = u.publication.source
  and l.source_seq = u.publication.source_seq
left join node n on n.run_id = l.run_id and n.node_id = l.first.dst
where not u.is_acknowledged
"""
"""Messages that the steering repository has not acknowledged to their publisher."""

SLOT = """
with first as (
  select run_id, node_id, topic, seq, publisher, n, source_seq from state_slot where status = 'reserved'
), blocking as (
  select f.run_id, f.node_id, f.topic, min(f.seq) as seq from first f group by f.run_id, f.node_id, f.topic
), held_up as (
  select f.run_id, f.node_id, f.topic, f.seq, f.publisher, f.source_seq, f.n, 'reserved' as status from first f
  union all
  select s.run_id, s.node_id, s.topic, s.seq, s.publisher, s.source_seq, s.n, 'stored' as status
  from state_slot s
  join blocking b on b.run_id = s.run_id and b.node_id = s.node_id and b.topic = s.topic and s.seq > b.seq
  where s.status = 'stored'
)
select h.run_id, h.node_id, h.publisher as source, coalesce(h.source_seq, u.publication.source_seq) as source_seq, case
    when h.status = 'stored' then concat('it is stored as number ', h.seq, ', behind number ', b.seq,
      ', which is reserved for number ', f.n, ' of ', p.name)
    when l.node_id is not null then concat('number ', h.seq, ' is reserved for it, and R2R-NAK asks the bundle')
    when d.is_active then concat('number ', h.seq, ' is reserved for it, and R2P-NAK asks its publisher')
    else concat('number ', h.seq, ' is reserved for it, and gossip has not told yet who has it') end as reason
from held_up h
join blocking b on b.run_id = h.run_id and b.node_id = h.node_id and b.topic = h.topic
join first f on f.run_id = b.run_id and f.node_id = b.node_id and f.topic = b.topic and f.seq = b.seq
join node p on p.run_id = f.run_id and p.node_id = f.publisher
left join state_lacking l on l.run_id = h.run_id and l.node_id = h.node_id and l.topic = h.topic
  and l.publisher = h.publisher and l.n = h.n
left join state_designation d on d.run_id = h.run_id and d.node_id = h.node_id and d.topic = h.topic
  and d.client = h.publisher and d.role = 'publisher'
left join state_unstable u on u.run_id = h.run_id and u.node_id = h.publisher and u.topic = h.topic and u.n = h.n
where coalesce(h.source_seq, u.publication.source_seq) is not null
"""
"""Messages at repositories that lie behind the frontier."""

EXPECTED = """
select e.run_id, e.node_id, e.source, e.source_seq, case
    when b.source is null then concat('number ', e.seq, ' is stored, and S2R-NAK asks for its message')
    else concat('its message is there, and number ', e.prev, ' has to be delivered before') end as reason
from state_expected e
left join state_buffered b on b.run_id = e.run_id and b.node_id = e.node_id and b.topic = e.topic
  and b.source = e.source and b.source_seq = e.source_seq
where e.source >= 0
"""
"""Messages that subscribers know to be stored."""

BUFFERED = """
select b.run_id, b.node_id, b.source, b.source_seq, case
    when s.repository is null or s.is_seeking then 'the subscriber has no steering repository yet'
    when s.is_refused then 'the subscriber is refused: it is not registered for the topic'
    else concat(n.name, ' has not said that it is stored') end as reason
from state_buffered b
join state_steering s on s.run_id = b.run_id and s.node_id = b.node_id and s.topic = b.topic and s.role = 'subscriber'
left join node n on n.run_id = s.run_id and n.node_id = s.repository
left join state_expected e on e.run_id = b.run_id and e.node_id = b.node_id and e.topic = b.topic
  and e.source = b.source and e.source_seq = b.source_seq
left join (select distinct run_id, node_id, topic from state_slot where status = 'reserved') r
  on r.run_id = b.run_id and r.node_id = s.repository and r.topic = b.topic
where e.source is null and r.node_id is null
"""
"""Messages in temporary buffers of subscribers that nobody has said to be stored; a reserved number tells more."""

WAITS = {"queued": QUEUED, "unstable": UNSTABLE, "slot": SLOT, "expected": EXPECTED, "buffered": BUFFERED}
"""By table."""

WAITED = """
with arrived as (
  select run_id, dst as node_id, source, source_seq, min(due_round) as round
  from sent_message
  where kind in ('Message', 'P2R-Retransmit', 'R2R-Retransmit') and fate = 'delivered'
  group by run_id, dst, source, source_seq
), told as (
  select run_id, src as node_id, source, source_seq, min(sent_round) as round
  from sent_message
  where kind = 'R2S*-Persistent' and src = cast(get_json_object(body, '$.origin') as bigint)
  group by run_id, src, source, source_seq
), slot as (
  select s.run_id, s.node_id, s.topic, s.seq, s.status, s.publisher, s.n, s.source_seq, a.round as came_round,
    t.round as told_round
  from state_slot s
  left join arrived a on a.run_id = s.run_id and a.node_id = s.node_id and a.source = s.publisher
    and a.source_seq = s.source_seq
  left join told t on t.run_id = s.run_id and t.node_id = s.node_id and t.source = s.publisher
    and t.source_seq = s.source_seq
  where s.status in ('stored', 'void')
), ahead as (
  select run_id, node_id, topic, seq, status, publisher, n, came_round,
    min(told_round) over (partition by run_id, node_id, topic order by seq desc
      rows between unbounded preceding and 1 preceding) as passed_round
  from slot
), blocked as (
  select w.run_id, w.node_id, w.topic, w.publisher as source, w.source_seq, w.came_round as since_round,
    w.told_round as until_round, min(struct(b.seq, b.publisher, b.n, b.status, b.came_round)) as first
  from slot w
  join ahead b on b.run_id = w.run_id and b.node_id = w.node_id and b.topic = w.topic and b.seq < w.seq
    and b.passed_round > w.came_round and (b.status = 'void' or b.came_round > w.came_round)
  where w.status = 'stored' and w.told_round > w.came_round
  group by w.run_id, w.node_id, w.topic, w.publisher, w.source_seq, w.came_round, w.told_round
), announced as (
  select s.run_id, s.dst as node_id, s.source, s.source_seq,
    max(case when s.fate = 'delivered' and s.due_round <= d.round
      then struct(s.due_round as round, cast(get_json_object(s.body, '$.origin') as bigint) as repository) end) as last,
    min(case when s.fate in ('lost_link', 'lost_crash') and s.sent_round < d.round then s.sent_round end) as lost_round
  from sent_message s
  join delivery d on d.run_id = s.run_id and d.subscriber = s.dst and d.source = s.source
    and d.source_seq = s.source_seq
  where s.kind = 'R2S*-Persistent'
  group by s.run_id, s.dst, s.source, s.source_seq
), unannounced as (
  select d.run_id, d.subscriber as node_id, d.source, d.source_seq, a.round as since_round, d.round as until_round,
    n.last.round as announced_round, n.last.repository as repository, n.lost_round
  from delivery d
  join arrived a on a.run_id = d.run_id and a.node_id = d.subscriber and a.source = d.source
    and a.source_seq = d.source_seq and a.round < d.round
  join announced n on n.run_id = d.run_id and n.node_id = d.subscriber and n.source = d.source
    and n.source_seq = d.source_seq
  left join (select distinct run_id, source, source_seq from blocked) b
    on b.run_id = d.run_id and b.source = d.source and b.source_seq = d.source_seq
  where b.run_id is null and (n.last.round > a.round or n.last is null and n.lost_round is not null)
)
select b.run_id, b.node_id, b.source, b.source_seq, b.since_round, b.until_round,
  concat('number ', b.first.seq, ' before it was reserved for number ', b.first.n, ' of ', p.name,
    case when b.first.status = 'void' then concat(', which no repository has got',
      case when a.last_round is null then '' else concat(' (deregistered in round ', a.last_round, ')') end)
      else concat(', which came in round ', b.first.came_round) end) as reason,
  r.node_id as crashed, r.crash_round
from blocked b
join node p on p.run_id = b.run_id and p.node_id = b.first.publisher
left join (
  select run_id, topic, node_id, max(end_round) as last_round from authorisation where role = 'publisher'
  group by run_id, topic, node_id
) a on a.run_id = b.run_id and a.topic = b.topic and a.node_id = b.first.publisher and a.last_round <= b.until_round
left join (
  select run_id, node_id, max(crash_round) as crash_round
  from node_recovery
  where recovery_round is null
  group by run_id, node_id
) r on r.run_id = b.run_id and r.node_id = b.first.publisher and r.crash_round <= b.until_round
union all
select u.run_id, u.node_id, u.source, u.source_seq, u.since_round, u.until_round,
  concat('subscribers deliver what is stored',
    case when n.name is null then '' else concat(', and ', n.name, ' announced in round ', u.announced_round) end,
    case when u.lost_round is null then '' else concat(', and its announcement of round ', u.lost_round, ' was lost')
    end) as reason,
  cast(null as bigint) as crashed, cast(null as bigint) as crash_round
from unannounced u
left join node n on n.run_id = u.run_id and n.node_id = u.repository
"""
"""Messages that repositories had before a number in front of them was filled or void, and messages that subscribers had
before a repository announced that they are stored."""

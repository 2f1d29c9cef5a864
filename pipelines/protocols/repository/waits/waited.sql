-- Messages that waited before they were delivered. At a repository they waited for an earlier number. At a subscriber
-- they waited for the notification of their storage.
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
  concat('number ', b.first.seq, ' before it was reserved for catenation number ', b.first.n, ' of ', p.name,
    case when b.first.status = 'void' then concat(', which no repository has',
      case when a.last_round is null then '' else concat(' (deregistered in round ', a.last_round, ')') end)
      else concat(', which arrived in round ', b.first.came_round) end) as reason,
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
  concat('subscribers deliver only stored messages',
    case when n.name is null then '' else concat(', and ', n.name, ' announced the storage in round ', u.announced_round) end,
    case when u.lost_round is null then '' else concat(', and the announcement sent in round ', u.lost_round, ' was lost')
    end) as reason,
  cast(null as bigint) as crashed, cast(null as bigint) as crash_round
from unannounced u
left join node n on n.run_id = u.run_id and n.node_id = u.repository

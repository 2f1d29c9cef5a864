-- audit, is_of_deliveries: only authorised clients publish and receive
-- Section 3.3, rule P25, on topics with an owner. A row is a delivery to or from a client that is not registered, or
-- that was deregistered so early that all repositories knew it; or a stored message of a publisher that was never
-- registered. In the baseline no repository registers clients.
select * from (
with used as (
  select d.run_id, p.topic, d.subscriber as client, 'subscriber' as role, d.round, p.issued_round,
    d.subscriber as node_id, d.source, d.source_seq
  from delivery d
  join publication p on p.run_id = d.run_id and p.source = d.source and p.source_seq = d.source_seq
  join topic_owner o on o.run_id = p.run_id and o.topic = p.topic
  union all
  select d.run_id, p.topic, d.source as client, 'publisher' as role, d.round, p.issued_round, d.subscriber as node_id,
    d.source, d.source_seq
  from delivery d
  join publication p on p.run_id = d.run_id and p.source = d.source and p.source_seq = d.source_seq
  join topic_owner o on o.run_id = p.run_id and o.topic = p.topic
), disturbed as (
  select run_id, max(round) as fault_round from fault_event group by run_id
), judged as (
  select u.run_id, u.topic, u.client, u.role, u.round, u.node_id, u.source, u.source_seq,
    count(a.node_id) as n_registrations, count_if(a.node_id is not null and (a.end_round is null or
      u.issued_round < greatest(a.end_round, coalesce(f.fault_round, 0)) + s.needed_rounds)) as n_lasting
  from used u
  join parameter b on b.run_id = u.run_id and not b.protocol_baseline
  join settled_run s on s.run_id = u.run_id
  left join disturbed f on f.run_id = u.run_id
  left join authorisation a on a.run_id = u.run_id and a.topic = u.topic and a.node_id = u.client and a.role = u.role
    and a.from_round <= u.round
  group by u.run_id, u.topic, u.client, u.role, u.round, u.issued_round, u.node_id, u.source, u.source_seq
)
select j.run_id, j.round, j.node_id, j.source, j.source_seq,
  concat('delivered, and ', c.name, case when j.n_registrations = 0 then ' has not been registered as '
    else ' is long deregistered as ' end, j.role, ' of ', j.topic) as detail
from judged j
join node c on c.run_id = j.run_id and c.node_id = j.client
where j.n_lasting = 0
) outsider
union all
select s.run_id, cast(null as bigint) as round, s.node_id, s.source, s.source_seq,
  concat('stored, and its publisher was never registered for topic ', s.topic) as detail
from stored_message s
join topic_owner o on o.run_id = s.run_id and o.topic = s.topic
left join authorisation a on a.run_id = s.run_id and a.topic = s.topic and a.node_id = s.source and a.role = 'publisher'
where a.node_id is null

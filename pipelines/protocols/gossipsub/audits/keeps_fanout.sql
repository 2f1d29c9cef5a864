-- audit, is_unconditional: a fanout stays while its node publishes, and ends afterwards
-- Rules S8 and S13. A fanout ends `fanout_ttl` heartbeats after the last publication.
with outside as (
  select p.run_id, p.source, p.source_seq, p.issued_round, p.topic,
    lag(p.source_seq) over (partition by p.run_id, p.source, p.topic order by p.source_seq) as before_seq,
    lag(p.issued_round) over (partition by p.run_id, p.source, p.topic order by p.source_seq) as before_round
  from publication p
  left join member m on m.run_id = p.run_id and m.node_id = p.source and m.topic = p.topic
  where m.run_id is null
), pushed as (
  select run_id, source, source_seq, dst from sent_message where kind = 'PUB' and src = source
)
select f.run_id, f.issued_round as round, f.source as node_id, f.source, f.source_seq,
  concat('is not pushed to node ', b.dst, ', which is in the fanout') as detail
from outside f
join parameter r on r.run_id = f.run_id
join standing s on s.run_id = f.run_id and s.topic = f.topic and s.node_id = f.source
  and f.issued_round < s.until_round
join pushed b on b.run_id = f.run_id and b.source = f.source and b.source_seq = f.before_seq and b.dst = s.neighbour
left join pushed p on p.run_id = f.run_id and p.source = f.source and p.source_seq = f.source_seq and p.dst = b.dst
where not r.protocol_flood_publish and p.run_id is null
  and not r.protocol_relay
  and f.issued_round < f.before_round + r.protocol_fanout_ttl * r.protocol_heartbeat_rounds
union all
select m.run_id, max(m.sent_round) as round, m.src as node_id,
  cast(null as bigint) as source, cast(null as bigint) as source_seq,
  concat('gossips to its fanout after its end, publications were in rounds up to ', max(f.issued_round)) as detail
from sent_message m
join parameter r on r.run_id = m.run_id
join outside f on f.run_id = m.run_id and f.source = m.src and f.topic = get_json_object(m.body, '$.topic')
where m.kind = 'IHAVE' and not r.protocol_relay
group by m.run_id, m.src, r.protocol_fanout_ttl, r.protocol_heartbeat_rounds
having max(m.sent_round) > max(f.issued_round + r.protocol_fanout_ttl * r.protocol_heartbeat_rounds)

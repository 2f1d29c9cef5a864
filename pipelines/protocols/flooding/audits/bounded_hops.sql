-- audit, is_unconditional: no copy travels over more than `max_hops` links
select m.run_id, m.sent_round as round, m.src as node_id, m.source, m.source_seq,
  concat('goes over link ', get_json_object(m.body, '$.hops'), ' of its way, max_hops is ',
    cast(r.protocol_max_hops as bigint)) as detail
from sent_message m
join parameter r on r.run_id = m.run_id
where m.kind = 'PUB' and cast(get_json_object(m.body, '$.hops') as bigint) > cast(r.protocol_max_hops as bigint)

-- audit, is_dated: a broker answers each vote of a sibling
-- Alg. 7, rules G18, G19 and G32. The answer is either a vote that names all failed brokers of the sibling's vote, or a
-- list of the brokers above, in the same round or later. A broker need not answer if it crashes later, or if it has not
-- found a parent since its recovery.
with answer as (
  select run_id, message_id, src, dst, sent_round, due_round, fate,
    from_json(get_json_object(body, '$.brokers'), 'array<bigint>') as brokers,
    cast(get_json_object(body, '$.vote') as bigint) as degree
  from sent_message
  where kind = 'RootElection'
)
select distinct v.run_id, v.due_round as round, v.dst as node_id, cast(null as bigint) as source,
  cast(null as bigint) as source_seq, concat('does not answer the vote of node ', v.src) as detail
from answer v
join quiet_run q on q.run_id = v.run_id
left join answer a on a.run_id = v.run_id and a.src = v.dst and a.dst = v.src
  and ((a.degree is null and a.sent_round >= v.due_round) or (a.degree is not null
    and size(array_except(v.brokers, a.brokers)) = 0))
left join node_recovery c on c.run_id = v.run_id and c.node_id = v.dst and c.crash_round > v.due_round
left join newcomer w on w.run_id = v.run_id and w.node_id = v.dst and w.from_round <= v.due_round
  and (w.end_round is null or v.due_round <= w.end_round)
where v.degree is not null and v.fate = 'delivered' and a.run_id is null and c.run_id is null and w.run_id is null

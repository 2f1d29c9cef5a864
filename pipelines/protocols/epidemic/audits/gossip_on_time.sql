-- audit, is_unconditional: gossip rounds of a dispatcher are whole intervals apart
-- Rules E1 and E15. The audit also compares gossip rounds before and after a crash of the dispatcher. It does not check
-- runs with replaced links, with an adaptive interval, or with gossip on detection.
with relinked as (select distinct run_id from fault_event where kind in ('link', 'unlink'))
select g.run_id, max(g.sent_round) as round, g.src as node_id,
  concat('begins gossip rounds in ', min(g.sent_round), ' and ', max(g.sent_round),
    ', which are not whole intervals apart') as detail
from gossip g
join parameter r on r.run_id = g.run_id
left join relinked x on x.run_id = g.run_id
where g.src = g.initiator and x.run_id is null and not r.protocol_adaptive
  and not r.protocol_gossip_on_detection
group by g.run_id, g.src, r.protocol_gossip_rounds
having count(distinct g.sent_round % r.protocol_gossip_rounds) > 1

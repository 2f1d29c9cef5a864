-- audit, is_unconditional: gossip rounds of a dispatcher are whole intervals apart
-- Rules E1 and E15. The audit also compares gossip rounds before and after a crash of the dispatcher. It does not check
-- runs with an adaptive interval, or with gossip on detection. A row is a dispatcher, with its first gossip round that
-- is no whole number of intervals after its first one.
with begun as (
  select run_id, src as node_id, sent_round, min(sent_round) over (partition by run_id, src) as first_round
  from gossip
  where src = initiator
)
select g.run_id, min(g.sent_round) as round, g.node_id,
  concat('begins gossip rounds in ', g.first_round, ' and ', min(g.sent_round),
    ', which are not whole intervals apart') as detail
from begun g
join parameter r on r.run_id = g.run_id
where not r.protocol_adaptive and not r.protocol_gossip_on_detection
  and (g.sent_round - g.first_round) % r.protocol_gossip_rounds <> 0
group by g.run_id, g.node_id, g.first_round

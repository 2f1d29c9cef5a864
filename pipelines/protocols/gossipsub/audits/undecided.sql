-- A row is a run that ended while gossip could still deliver a missing publication.
select m.run_id, min(m.publication_round) as round,
  concat(count(1), ' deliveries are missing, and gossip about their publications goes on') as reason
from missing_delivery m
join (
  select distinct c.run_id, c.source, c.source_seq
  from state_cached c
  join parameter r on r.run_id = c.run_id
  where c.age < r.protocol_history_gossip
) c on c.run_id = m.run_id and c.source = m.source and c.source_seq = m.source_seq
group by m.run_id

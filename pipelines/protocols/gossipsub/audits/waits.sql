-- A row is a publication in a cache, with the reason why it may still reach other nodes.
select c.run_id, c.node_id, c.source, c.source_seq, concat('it is cached, and IHAVE names it in ',
    r.protocol_history_gossip - c.age, ' more heartbeats') as reason
from state_cached c
join parameter r on r.run_id = c.run_id
where c.age < r.protocol_history_gossip

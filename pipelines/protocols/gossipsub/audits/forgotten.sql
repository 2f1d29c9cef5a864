-- A row is a node and a publication that the node got again after it had forgotten the id of the publication (S17). The
-- node then handles the publication like a new one.
select distinct h.run_id, h.node_id, h.source, h.source_seq
from (
  select run_id, node_id, source, source_seq, min(round) as round from had group by run_id, node_id, source, source_seq
) h
join parameter s on s.run_id = h.run_id
join sent_message m on m.run_id = h.run_id and m.dst = h.node_id and m.source = h.source
  and m.source_seq = h.source_seq and m.kind in ('PUB', 'REPLY') and m.fate in ('delivered', 'duplicate')
  and m.due_round > h.round + (s.protocol_seen_ttl - 1) * s.protocol_heartbeat_rounds

-- A row is a node and a publication, with the round in which the node first had the publication. A publisher may have
-- two rows.
select run_id, dst as node_id, source, source_seq, min(due_round) as round
from sent_message
where kind in ('PUB', 'REPLY') and fate in ('delivered', 'duplicate')
group by run_id, dst, source, source_seq
union all
select run_id, source as node_id, source, source_seq, issued_round as round
from publication

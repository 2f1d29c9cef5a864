-- The events that dispatchers receive or publish: one row per copy that arrives, and one per publication. fate: the fate
-- of the copy, delivered or duplicate; delivered for a publication.
select run_id, dst as node_id, source, source_seq, due_round as round, fate
from sent_message
where kind in ('EVENT', 'REPLY') and fate in ('delivered', 'duplicate')
union all
select run_id, source as node_id, source, source_seq, issued_round as round, 'delivered' as fate from publication

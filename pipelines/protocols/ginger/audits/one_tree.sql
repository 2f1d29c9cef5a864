-- audit: at the end of a quiescent run the live brokers form one tree
select run_id, node_id, detail
from broken_tree

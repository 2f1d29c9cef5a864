-- audit: at the end of a quiescent run the live brokers form one tree
select run_id, cast(null as bigint) as round, node_id, cast(null as bigint) as source,
  cast(null as bigint) as source_seq, detail
from broken_tree

-- audit, is_unconditional: a source's counters count from 1 without a gap
-- The counter of a source for a pattern counts from 1 without a gap, and never restarts (rule E10).
select run_id, issued_round as round, node_id, node_id as source, source_seq,
  concat('has counter ', number, ' for pattern ', pattern_id, ' after ', n_before, ' events') as detail
from (
  select *, row_number() over (partition by run_id, node_id, pattern_id order by source_seq) - 1 as n_before
  from state_tag
  where number is not null
) numbered
where number <> n_before + 1

-- The beginnings and ends of replaced links and their replacements: one row per run, link (lower end first), round and
-- kind.
select distinct run_id, least(src, dst) as a, greatest(src, dst) as b, round, kind
from fault_event
where kind in ('link', 'unlink')

-- audit: the duplicate detector of a publisher has the number of its newest publication
-- At the end the duplicate detector of each publisher has a row for the publisher itself (rule R18). With detector
-- identifier, the row has at least the number of the newest publication. A later crash deletes the detector.
with newest as (
  select p.run_id, p.source, max(p.source_seq) as source_seq, max(p.issued_round) as round,
    r.protocol_detector as detector
  from publication p
  join parameter r on r.run_id = p.run_id
  group by p.run_id, p.source, r.protocol_detector
)
select n.run_id, n.round, n.source as node_id, n.source, n.source_seq,
  concat('is not in the duplicate detector of its source, which has ', coalesce(cast(d.last_seq as string), 'no row'))
    as detail
from newest n
left join state_detector d on d.run_id = n.run_id and d.node_id = n.source and d.source = n.source
left join node_recovery c on c.run_id = n.run_id and c.node_id = n.source and c.crash_round >= n.round
where c.run_id is null and (d.run_id is null or (n.detector = 'identifier' and d.last_seq < n.source_seq))

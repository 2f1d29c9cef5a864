-- How large did the duplicate detector of each node grow?
-- One row per run and node (protocol delta). A crash empties the detector. A query with `--as-of-round R` returns the
-- sizes in the last commit up to round R.
-- :detector type of the detector: identifier or visited
-- :n_entries number of stored identifiers: detector identifier has one per source, detector visited has one per node in
--   the accepted visited lists
select n.run_id, n.node_id, n.name, from_json(r.parameters, 'map<string,string>')['protocol.detector'] as detector,
  count(d.source) as n_entries
from node n
join run r on r.run_id = n.run_id
left join state_detector d on d.run_id = n.run_id and d.node_id = n.node_id
group by n.run_id, n.node_id, n.name, r.parameters

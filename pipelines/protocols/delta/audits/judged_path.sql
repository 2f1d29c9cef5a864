-- The paths of the judged nodes.
select p.* from path p join judged j on j.run_id = p.run_id and j.node_id = p.node_id

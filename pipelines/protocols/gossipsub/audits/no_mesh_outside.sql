-- audit, is_unconditional: a node has no mesh of a topic that it has not joined
-- Rules S4 and S10. A row is a mesh at the end of the run.
select t.run_id, t.node_id,
  concat('topic ', t.topic, ': ', size(t.mesh), ' neighbours in the mesh, and it has not joined') as detail
from state_topic t
where not t.is_joined and size(t.mesh) > 0

-- Which topics have an owner, and which clients does the scenario register for them?
-- One row per run and topic with an owner (protocol repository). Everybody may use a topic without a row.
-- :owner id of the owner
-- :owner_name name of the owner
-- :publishers names of the publishers that the scenario registers
-- :subscribers names of the subscribers that the scenario registers
with rule as (
  select run_id, explode(from_json(from_json(parameters, 'map<string,string>')['protocol.topics'],
    'map<string,struct<owner:string,publishers:array<string>,subscribers:array<string>>>')) as (topic, rules)
  from run
)
select r.run_id, r.topic, n.node_id as owner, n.name as owner_name, r.rules.publishers as publishers,
  r.rules.subscribers as subscribers
from rule r
join node n on n.run_id = r.run_id and n.name = r.rules.owner

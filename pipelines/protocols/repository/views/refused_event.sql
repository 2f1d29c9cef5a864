-- Which events of clients were refused, by whom, and when?
-- One row per run and Refuse that a repository sent (protocol repository, rule P25). The client is not authorised for
-- the topic in the role, or has sent Register or Deregister for a topic that it does not own.
-- :round round in which the Refuse was sent
-- :repository repository that sent the Refuse
-- :repository_name name of the repository
-- :client the client
-- :client_name name of the client
-- :role role in which the client was refused
select m.run_id, m.sent_round as round, m.src as repository, r.name as repository_name,
  cast(get_json_object(m.body, '$.to[0]') as bigint) as client, c.name as client_name,
  get_json_object(m.body, '$.topic') as topic, get_json_object(m.body, '$.role') as role
from sent_message m
join node r on r.run_id = m.run_id and r.node_id = m.src
join node c on c.run_id = m.run_id and c.node_id = cast(get_json_object(m.body, '$.to[0]') as bigint)
where m.kind = 'Refuse' and m.src = cast(get_json_object(m.body, '$.origin') as bigint)

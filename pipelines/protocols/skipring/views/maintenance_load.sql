-- How many messages does each node send to maintain the ring, in each Timeout interval?
-- One row per run, node, type of message and interval (protocol skipring).
-- :* sent_message
-- :kind type of the messages; nodes send messages of this type periodically, without end
-- :number number of the interval: interval i starts in round i * timeout_interval
-- :n_messages number of messages that the node sent in the interval
with interval as (
  select r.run_id, cast(from_json(r.parameters, 'map<string,string>')['protocol.timeout_interval'] as bigint) as rounds,
    p.maintenance
  from run r
  join protocol p on p.name = r.protocol
  join (select distinct run_id from state_supervisor) s on s.run_id = r.run_id
)
select m.run_id, m.src as node_id, n.name, n.role, m.kind, m.sent_round div i.rounds as number, count(1) as n_messages
from sent_message m
join interval i on i.run_id = m.run_id
join node n on n.run_id = m.run_id and n.node_id = m.src
where array_contains(i.maintenance, m.kind) and m.sent_round >= 0
group by m.run_id, m.src, n.name, n.role, m.kind, m.sent_round div i.rounds

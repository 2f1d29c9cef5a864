-- How many copies of a publication does flooding send, and how many of them are duplicates?
-- One row per run and publication that was flooded (protocol skipring). In the legitimate state of n subscribers
-- n_messages is 3n - 5 (rule K12), and n_taken is n - 1.
-- :topic topic of the publication
-- :n_messages copies that were sent, in messages PublishNew
-- :n_taken copies that were delivered
-- :n_duplicates copies whose receiver had an earlier copy
-- :n_lost copies to nodes that were down
-- :first_round round in which the first copy was sent
-- :last_round round in which the last copy was due
select m.run_id, get_json_object(m.body, '$.topic') as topic, m.source, n.name as source_name, m.source_seq,
  count(1) as n_messages, count_if(m.fate = 'delivered') as n_taken, count_if(m.fate = 'duplicate') as n_duplicates,
  count_if(m.fate = 'lost_crash') as n_lost, min(m.sent_round) as first_round, max(m.due_round) as last_round
from sent_message m
join node n on n.run_id = m.run_id and n.node_id = m.source
join (select distinct run_id from state_supervisor) s on s.run_id = m.run_id
where m.kind = 'PublishNew'
group by m.run_id, get_json_object(m.body, '$.topic'), m.source, n.name, m.source_seq

-- How many messages of each type crossed each link, in each direction?
-- Timers (from a node to itself) use no link. A connection that bypasses crashed nodes counts as a separate link.
-- :* sent_message
select m.run_id, m.src, sn.name as src_name, m.dst, dn.name as dst_name, m.kind, count(1) as n_messages
from sent_message m
join node sn on sn.run_id = m.run_id and sn.node_id = m.src
join node dn on dn.run_id = m.run_id and dn.node_id = m.dst
where m.src <> m.dst
group by m.run_id, m.src, sn.name, m.dst, dn.name, m.kind

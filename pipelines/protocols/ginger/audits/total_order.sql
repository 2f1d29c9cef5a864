-- audit: total-order messages on a key item have one order, and each other message has one position in this order
-- All clients deliver the total-order messages on a key item in the same order. A message in eventual or causal order
-- precedes a given total-order message on its key item at all clients, or at no client (3.2). So the number of
-- total-order messages that precede a message is the same at all clients. A row is a message for which this number
-- differs between two clients.
with ranked as (
  select *, count_if(guarantee = 'total') over (
    partition by run_id, node_id, topic, key_item order by position rows between unbounded preceding and 1 preceding
  ) as n_before
  from key_item
), compared as (
  select run_id, topic, key_item, source, source_seq, min(struct(n_before, node_id)) as least,
    max(struct(n_before, node_id)) as most
  from ranked
  group by run_id, topic, key_item, source, source_seq
)
select c.run_id, c.most.node_id as node_id, c.source, c.source_seq,
  concat('key item ', c.key_item, ' of topic ', c.topic, ': delivered after ', c.most.n_before,
    ' total-order messages, at ', n.name, ' after ', c.least.n_before) as detail
from compared c
join node n on n.run_id = c.run_id and n.node_id = c.least.node_id
where c.least.n_before < c.most.n_before

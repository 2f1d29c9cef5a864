"""Which publications subscribers lack at the end of a run, and whether there was time to get them (rule K19)."""

from __future__ import annotations

LACKING = """
with member as (
  select s.run_id, s.node_id, s.topic, count(1) over (partition by s.run_id, s.topic) as n_subscribers
  from state_subscription s
  where s.wants
), held as (
  select run_id, node_id, topic, publication.source as source, publication.source_seq as source_seq,
    publication.issued_round as issued_round
  from state_trie_node
  where publication is not null
), there as (
  select h.run_id, h.topic, h.source, h.source_seq, min(h.issued_round) as issued_round
  from held h
  join member m on m.run_id = h.run_id and m.node_id = h.node_id and m.topic = h.topic
  group by h.run_id, h.topic, h.source, h.source_seq
), ended as (
  select run_id, max(case when fate = 'in_flight' then sent_round else due_round end) as last_round
  from sent_message
  group by run_id
), given as (
  select run_id, cast(get_json_object(parameters, "$['protocol.timeout_interval']") as bigint)
    + cast(get_json_object(parameters, "$['protocol.max_delay']") as bigint) as interval_rounds
  from run
)
select t.run_id, m.node_id, t.topic, t.source, t.source_seq, greatest(t.issued_round, c.clean_round) as since_round,
  e.last_round - greatest(t.issued_round, c.clean_round)
    >= (2 * m.n_subscribers + 16) * g.interval_rounds as is_late
from there t
join member m on m.run_id = t.run_id and m.topic = t.topic
join ended e on e.run_id = t.run_id
join given g on g.run_id = t.run_id
join convergence c on c.run_id = t.run_id and c.topic = t.topic and c.is_last
left join held h on h.run_id = t.run_id and h.node_id = m.node_id and h.topic = t.topic
  and h.source = t.source and h.source_seq = t.source_seq
where h.node_id is null
"""
"""A publication at a subscriber that is up, and another one that lacks it."""

NOWHERE = """
with member as (
  select run_id, node_id, topic from state_subscription where wants
), held as (
  select distinct t.run_id, t.topic, t.publication.source as source, t.publication.source_seq as source_seq
  from state_trie_node t
  join member m on m.run_id = t.run_id and m.node_id = t.node_id and m.topic = t.topic
  where t.publication is not null
)
select p.run_id, p.topic, p.source, p.source_seq, p.issued_round, o.node_id is not null as is_member
from publication p
join (select distinct run_id, topic from member) a on a.run_id = p.run_id and a.topic = p.topic
left join held h on h.run_id = p.run_id and h.topic = p.topic and h.source = p.source and h.source_seq = p.source_seq
left join member o on o.run_id = p.run_id and o.topic = p.topic and o.node_id = p.source
where h.source is null
"""
"""A publication that no subscriber has which is up; where its publisher is one of them, it should have."""

FLYING = """
select run_id, get_json_object(body, '$.topic') as topic, source, source_seq, min(dst) as node_id
from sent_message
where kind = 'PublishNew' and fate = 'in_flight'
group by run_id, get_json_object(body, '$.topic'), source, source_seq
"""
"""A publication in a PublishNew that was under way when the run ended."""

UNDECIDED = f"""
with lacking as (
  {LACKING}
), nowhere as (
  {NOWHERE}
), flying as (
  {FLYING}
)
select run_id, round, concat('topic ', topic, ': ', problem) as reason
from convergence
where is_last and problem is not null
union all
select l.run_id, l.since_round as round, concat(n.name, ' lacks publication ', l.source_seq, ' of ', s.name,
  ', and tries are compared since round ', l.since_round, ' only') as reason
from lacking l
join node n on n.run_id = l.run_id and n.node_id = l.node_id
join node s on s.run_id = l.run_id and s.node_id = l.source
where not l.is_late
union all
select w.run_id, w.issued_round as round, concat('publication ', w.source_seq, ' of ', s.name,
  ' is under way to node ', f.node_id, ', and no subscriber has it yet') as reason
from nowhere w
join node s on s.run_id = w.run_id and s.node_id = w.source
join flying f on f.run_id = w.run_id and f.topic = w.topic and f.source = w.source and f.source_seq = w.source_seq
where not w.is_member
"""  # noqa: S608 - built of constants
"""The runs that ended before their topics were legitimate and all publications had had the time to spread."""

WAITS = """
with kept as (
  select t.run_id, t.node_id, t.topic, t.publication.source as source, t.publication.source_seq as source_seq,
    coalesce(s.wants, false) as wants, s.label
  from state_trie_node t
  left join state_subscription s on s.run_id = t.run_id and s.node_id = t.node_id and s.topic = t.topic
  where t.publication is not null
), spread as (
  select run_id, topic, source, source_seq, count(1) as n_nodes, count_if(wants and label is not null) as n_on_ring
  from kept
  group by run_id, topic, source, source_seq
), member as (
  select run_id, topic, count(1) as n_subscribers, count_if(label is null) as n_without
  from state_subscription
  where wants
  group by run_id, topic
)
select k.run_id, k.node_id, k.source, k.source_seq, case
  when not k.wants then 'its publisher keeps it until it subscribes to the topic'
  when k.label is null then 'its publisher has no label yet'
  else concat(s.n_on_ring, ' of ', m.n_subscribers, ' subscribers have it, ', m.n_without,
    ' have no label yet; the next CheckTrie brings it further') end as reason
from spread s
join kept k on k.run_id = s.run_id and k.topic = s.topic and k.source = s.source and k.source_seq = s.source_seq
join member m on m.run_id = s.run_id and m.topic = s.topic
where (s.n_on_ring > 0 and s.n_on_ring < m.n_subscribers and k.wants and k.label is not null)
  or (s.n_on_ring = 0 and k.node_id = k.source)
"""
"""Why a publication is not everywhere yet: what `pipelines.why` tells."""

-- The entries that violate Level 1 (is_near) or Level 2 (4.3). Level 1 is about the nodes within δ+1 hops of subscriber S:
-- the node has exactly one entry of a live subscription, with S as origin and the first hop of the path to S, and no
-- entry of an ended subscription. A crash of S, or of a node on the path, changes only column responsible, which names
-- the closest live node.
--
-- Level 2 is about a node N more than δ+1 hops from subscriber S. The entry of N names P(N, S)[δ+1], the node δ+1
-- hops from N on the path P(N, S). A table of all paths P(N, S) would have a row for each pair of nodes. So this audit
-- uses only paths of at most δ+1 hops, and the entry of the next hop B of N (column responsible). B is k = d(N, B) hops
-- from N. There are three checks:
--
-- 1. the entry of N names a node δ+1 hops away, and B is the closest live node on the path to this node;
-- 2. B's entry does not lead back towards N;
-- 3. N's entry names P(B, from_B)[δ+1-k].
--
-- On a tree these checks are equivalent to Level 2. By check 2 the next hops from N never turn back, so they follow a
-- path of the tree. By Level 1 and rule R1 this path ends at S, or before δ+1 consecutive nodes that are down. So this
-- path is P(N, S), and B lies on it. If d(B, S) <= δ+1, from_B is S by Level 1; otherwise from_B is P(B, S)[δ+1] by
-- induction over the distance. In both cases P(B, from_B)[δ+1-k] is the node δ+1 hops from N on P(N, S).
with entry_count as (
  select j.run_id, j.node_id, s.subscription_id, s.subscriber, 1 as required, 0 as held
  from judged j
  join due_subscription s on s.run_id = j.run_id and s.is_live
  union all
  select e.run_id, e.node_id, e.subscription_id, s.subscriber, 0 as required, 1 as held
  from entry e
  left join subscription s on s.run_id = e.run_id and s.subscription_id = e.subscription_id
  left join due_subscription d on d.run_id = e.run_id and d.subscription_id = e.subscription_id
  where s.run_id is null or d.run_id is not null
), wrong_count as (
  -- The nodes that do not have exactly one entry of a live subscription, or that have an entry of a subscription that is
  -- not live.
  select c.run_id, c.node_id, c.subscription_id, c.subscriber, n.run_id is not null as is_near,
    sum(c.required) as n_required, sum(c.held) as n_held
  from entry_count c
  left join near n on n.run_id = c.run_id and n.node_id = c.node_id and n.subscription_id = c.subscription_id
  group by c.run_id, c.node_id, c.subscription_id, c.subscriber, n.run_id is not null
  having sum(c.required) <> sum(c.held)
), followed as (
  select e.run_id, e.node_id, e.subscription_id, e.subscriber, e.origin, e.responsible, e.delta, e.path,
    b.path as next_path, b.first_hop as next_first_hop, cast(array_position(e.path, e.responsible) as int) - 1 as hops
  from judged_entry e
  join judged_entry b on b.run_id = e.run_id and b.node_id = e.responsible and b.subscription_id = e.subscription_id
    and b.is_right
  where not e.is_near and e.is_right
), compared as (
  -- Checks 2 and 3. If the entry of the next hop is wrong, check 1 reports it, and the entry of N is not checked here.
  select run_id, node_id, subscription_id, subscriber, origin, responsible,
    next_first_hop = get(path, hops - 1) as turns_back, get(next_path, delta + 1 - hops) as wanted
  from followed
), disagreeing as (
  select * from compared where turns_back or origin <> wanted
), wrong_next as (
  -- If the entries of consecutive nodes disagree, only the entry nearest to S is a row.
  select d.*
  from disagreeing d
  left join disagreeing b on b.run_id = d.run_id and b.node_id = d.responsible and b.subscription_id = d.subscription_id
  where d.turns_back or b.run_id is null
), names as (
  select run_id, map_from_entries(collect_list(struct(node_id, name))) as name_of from node group by run_id
)
select w.run_id, w.node_id, w.is_near, concat('subscription ', subscription_id, case
    when subscriber is null then ' was never issued and has an entry'
    when n_held = 0 then concat(' of ', name_of[subscriber], ' has no entry')
    when n_required = 0 then concat(' of ', name_of[subscriber], ' has ended and still has an entry')
    else concat(' of ', name_of[subscriber], ' has ', n_held, ' entries') end) as detail
from wrong_count w
join names n on n.run_id = w.run_id
union all
select w.run_id, w.node_id, w.is_near, concat('subscription ', subscription_id, ' of ', name_of[subscriber], case
    when is_near and not (origin <=> subscriber) then concat(' has an entry from ',
      coalesce(name_of[origin], cast(origin as string), 'nowhere'))
    when not is_near and not (distance <=> delta + 1) then concat(' has an entry from ',
      coalesce(name_of[origin], cast(origin as string), 'nowhere'), ', not ', delta + 1, ' hops away')
    when not (entry_responsible <=> responsible) then concat(' has an entry via ',
      coalesce(name_of[entry_responsible], cast(entry_responsible as string), 'nowhere'), ', the way is via ',
      coalesce(name_of[responsible], cast(responsible as string), 'nowhere'))
    else concat(' has an entry ', coalesce(cast(entry_distance as string), '?'), ' hops off by ',
      coalesce(name_of[entry_hop], cast(entry_hop as string), 'nowhere'), ', the way is ', distance, ' hops by ',
      coalesce(name_of[first_hop], cast(first_hop as string), 'nowhere')) end) as detail
from judged_entry w
join names n on n.run_id = w.run_id
where not is_right
union all
select w.run_id, w.node_id, false as is_near, concat('subscription ', subscription_id, ' of ', name_of[subscriber], case
    when turns_back then concat(' has an entry via ', name_of[responsible], ', whose own turns back')
    else concat(' has an entry from ', coalesce(name_of[origin], cast(origin as string), 'nowhere'), ', that of ',
      name_of[responsible], ' asks for ', coalesce(name_of[wanted], cast(wanted as string), 'nowhere')) end) as detail
from wrong_next w
join names n on n.run_id = w.run_id

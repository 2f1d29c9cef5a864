-- Level 1 (4.3): a node within δ+1 hops of the subscriber has exactly one entry of a live subscription. The entry has
-- the subscriber as origin and the first hop of the path to the subscriber. The node has no entry of an ended
-- subscription. A crash of the subscriber, or of a node on the path, changes only column responsible, which names the
-- closest live node.
with wrong_near as (
  select distinct n.*, e.delta, e.origin, e.entry_distance, e.entry_hop, e.entry_responsible, e.n_entries
  from near n
  left join entry e on e.run_id = n.run_id and e.node_id = n.node_id and e.subscription_id = n.subscription_id
  where case when not n.is_live then e.n_entries is not null
    else not (e.n_entries <=> 1 and e.origin <=> n.subscriber and e.entry_responsible <=> n.responsible
      and e.entry_hop <=> n.first_hop and e.entry_distance <=> n.distance) end
), names as (
  select run_id, map_from_entries(collect_list(struct(node_id, name))) as name_of from node group by run_id
)
select distinct w.run_id, cast(null as bigint) as round, w.node_id, cast(null as bigint) as source,
  cast(null as bigint) as source_seq, concat('subscription ', subscription_id, ' of ',
  coalesce(name_of[subscriber], cast(subscriber as string), 'nowhere'), case
    when not is_live then ' has ended and still has an entry'
    when n_entries is null then ' has no entry'
    when n_entries > 1 then concat(' has ', n_entries, ' entries')
    when not (origin <=> subscriber) then concat(' has an entry from ',
      coalesce(name_of[origin], cast(origin as string), 'nowhere'))
    when not (entry_responsible <=> responsible) then concat(' has an entry via ',
      coalesce(name_of[entry_responsible], cast(entry_responsible as string), 'nowhere'), ', the way is via ',
      coalesce(name_of[responsible], cast(responsible as string), 'nowhere'))
    else concat(' has an entry ', coalesce(cast(entry_distance as string), '?'), ' hops off by ',
      coalesce(name_of[entry_hop], cast(entry_hop as string), 'nowhere'), ', the way is ', distance, ' hops by ',
      coalesce(name_of[first_hop], cast(first_hop as string), 'nowhere')) end) as detail
from wrong_near w
join names n on n.run_id = w.run_id

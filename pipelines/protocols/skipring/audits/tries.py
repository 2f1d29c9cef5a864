"""Tries are Patricia tries with the right keys and hashes, and publications are flooded over all edges (4.2, 4.3)."""

from __future__ import annotations

from functools import reduce

_HEX = "0123456789abcdef"
_LETTERS = "ghijklmnopqrstuv"


def _binary(digest: str) -> str:
    """Returns SQL for the binary digits of hexadecimal ones: each becomes a letter, and each letter four digits."""
    letters = f"translate({digest}, '{_HEX}', '{_LETTERS}')"
    return reduce(lambda text, value: f"replace({text}, '{_LETTERS[value]}', '{value:04b}')", range(16), letters)


UNSOUND = f"""
with setting as (
  select run_id, cast(get_json_object(parameters, "$['protocol.key_bits']") as int) as key_bits,
    cast(get_json_object(parameters, "$['protocol.hash_bits']") as int) div 4 as n_digits,
    2 * cast(get_json_object(parameters, "$['protocol.timeout_interval']") as bigint) as warm_rounds
  from run
), ended as (
  select run_id, max(case when fate = 'in_flight' then sent_round else due_round end) as last_round
  from sent_message
  group by run_id
), late as (
  select distinct f.run_id, f.node_id
  from fault_event f
  join setting s on s.run_id = f.run_id
  where f.kind = 'pause' and f.round <= s.warm_rounds
), judged as (
  select t.*, s.key_bits, s.n_digits
  from state_trie_node t
  join setting s on s.run_id = t.run_id
  join ended e on e.run_id = t.run_id and e.last_round >= s.warm_rounds
  left join late l on l.run_id = t.run_id and l.node_id = t.node_id
  where l.node_id is null
), edge as (
  select run_id, node_id, topic, label as parent, explode(array(zero, one)) as child from judged
), parents as (
  select run_id, node_id, topic, child, count(1) as n_parents
  from edge
  where child is not null
  group by run_id, node_id, topic, child
), keyed as (
  select j.*, z.hash as zero_hash, o.hash as one_hash, coalesce(p.n_parents, 0) as n_parents, r.label as root,
    substr({_binary("sha2(concat_ws(',', j.publication.source, j.publication.source_seq, j.topic), 256)")}, 1,
      j.key_bits) as right_key
  from judged j
  left join judged z on z.run_id = j.run_id and z.node_id = j.node_id and z.topic = j.topic and z.label = j.zero
  left join judged o on o.run_id = j.run_id and o.node_id = j.node_id and o.topic = j.topic and o.label = j.one
  left join parents p on p.run_id = j.run_id and p.node_id = j.node_id and p.topic = j.topic and p.child = j.label
  left join state_trie_root r on r.run_id = j.run_id and r.node_id = j.node_id and r.topic = j.topic
), found as (
  select run_id, node_id, topic, label, publication, case
    when publication is not null and (zero is not null or one is not null) then 'a leaf has children'
    when publication is not null and label <> publication.key then 'the leaf has the key of another publication'
    when publication is not null and label <> right_key then 'the key is not that of its publisher, number and topic'
    when publication is not null and hash <> substr(sha2(label, 256), 1, n_digits)
      then 'the hash of the leaf is not that of its key'
    when publication is null and (zero_hash is null or one_hash is null) then 'a child is missing'
    when publication is null and not (startswith(zero, concat(label, '0')) and startswith(one, concat(label, '1')))
      then 'a child does not continue the label'
    when publication is null and hash <> substr(sha2(concat(zero_hash, one_hash), 256), 1, n_digits)
      then 'the hash is not that of the children'
    when root is null then 'the trie has no root'
    when label = root and n_parents <> 0 then 'the root has a parent'
    when label <> root and n_parents <> 1 then concat('it has ', n_parents, ' parents')
    end as what
  from keyed
)
select run_id, cast(null as bigint) as round, node_id, publication.source as source,
  publication.source_seq as source_seq, concat('trie of topic ', topic, ', node ', label, ': ', what) as detail
from found
where what is not null
"""  # noqa: S608 - built of constants
"""Every trie is a Patricia trie whose keys and hashes are those of its publications.

Nodes of tries that are not as section 4.2 defines them, two Timeouts after the start.
"""

FLOODED = """
with copy as (
  select run_id, src, dst, source, source_seq, sent_round, due_round, fate, get_json_object(body, '$.topic') as topic
  from sent_message
  where kind = 'PublishNew'
), taken as (
  select run_id, source as node_id, topic, source, source_seq, issued_round as round, cast(null as bigint) as sender
  from publication
  union all
  select c.run_id, c.dst as node_id, c.topic, c.source, c.source_seq, c.due_round as round, c.src as sender
  from copy c
  join delivery d on d.run_id = c.run_id and d.subscriber = c.dst and d.source = c.source
    and d.source_seq = c.source_seq and d.round = c.due_round
  where c.fate = 'delivered'
), state as (
  select run_id, node_id, topic, round, lead(round) over (partition by run_id, node_id, topic order by round) as ended,
    array_union(filter(array(`left`.node, `right`.node, ring.node), one -> one is not null),
      filter(transform(slots, slot -> slot.node), one -> one is not null)) as neighbours
  from state_configuration_change
), steady as (
  select t.*, s.neighbours
  from taken t
  join state s on s.run_id = t.run_id and s.node_id = t.node_id and s.topic = t.topic and s.round < t.round
    and coalesce(s.ended, t.round + 1) > t.round
), due as (
  select distinct run_id, node_id, topic, source, source_seq, round, explode(neighbours) as dst, sender from steady
), missing as (
  select d.run_id, d.round, d.node_id, d.source, d.source_seq,
    concat('takes it in round ', d.round, ' and does not pass it on to its neighbour ', n.name) as detail
  from due d
  join node n on n.run_id = d.run_id and n.node_id = d.dst
  left join copy c on c.run_id = d.run_id and c.src = d.node_id and c.dst = d.dst and c.source = d.source
    and c.source_seq = d.source_seq and c.sent_round = d.round
  where c.run_id is null and (d.sender is null or d.sender <> d.dst)
), extra as (
  select c.run_id, c.sent_round as round, c.src as node_id, c.source, c.source_seq, case
    when t.run_id is null then concat('passes it on to ', n.name, ' in round ', c.sent_round, ', when it takes no copy')
    when t.sender = c.dst then concat('passes it back to ', n.name)
    else concat('passes it on to ', n.name, ', which is no neighbour') end as detail
  from copy c
  join node n on n.run_id = c.run_id and n.node_id = c.dst
  left join taken t on t.run_id = c.run_id and t.node_id = c.src and t.source = c.source
    and t.source_seq = c.source_seq and t.round = c.sent_round
  left join steady s on s.run_id = c.run_id and s.node_id = c.src and s.source = c.source
    and s.source_seq = c.source_seq and s.round = c.sent_round
  where c.sent_round >= 0 and (t.run_id is null or t.sender = c.dst
    or (s.run_id is not null and not array_contains(s.neighbours, c.dst)))
)
select * from missing
union all
select * from extra
"""
"""A node that takes a flooded publication passes it on to all its neighbours but the sender, and only then.

Copies of publications that flooding lacks or has too many, where the taker's edges did not change in the round.
"""

-- audit: every trie has the structure, keys and hashes of its publications
-- Section 4.2. A row is a trie node that violates the definition at the end of a run. The audit does not check runs
-- that are shorter than two Timeout intervals.
with setting as (
  select run_id, cast(protocol_key_bits as int) as key_bits, cast(protocol_hash_bits as int) div 4 as n_digits,
    2 * protocol_timeout_interval as warm_rounds
  from parameter
), judged as (
  select t.*, s.key_bits, s.n_digits
  from state_trie_node t
  join setting s on s.run_id = t.run_id
  join ring_setting e on e.run_id = t.run_id and e.last_round >= s.warm_rounds
  left join fault_event l on l.run_id = t.run_id and l.node_id = t.node_id and l.kind = 'pause'
    and l.round <= s.warm_rounds
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
    -- the binary digits of the hash
    substr(array_join(transform(sequence(1, 64), digit -> lpad(bin(instr('0123456789abcdef', substr(
      sha2(concat_ws(',', j.publication.source, j.publication.source_seq, j.topic), 256), digit, 1)) - 1), 4, '0')),
        ''), 1,
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
select run_id, node_id, publication.source as source,
  publication.source_seq as source_seq, concat('trie of topic ', topic, ', node ', label, ': ', what) as detail
from found
where what is not null

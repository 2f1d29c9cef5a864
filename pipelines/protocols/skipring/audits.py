"""The guarantees of protocol ``skipring`` beside the general ones."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pipelines.contract.audit import FOUND, Audit, Evidence
from pipelines.protocols.skipring.replay import violations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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


WRONG_TUPLES = """
with member as (
  select run_id, topic, node_id from state_subscription where wants
), size as (
  select run_id, topic, count(1) as n_subscribers from member group by run_id, topic
), wanted as (
  select run_id, topic, concat(substr(bin(x), 2), substr(bin(x), 1, 1)) as label
  from (select run_id, topic, explode(sequence(0L, n_subscribers - 1L)) as x from size) numbered
), changed as (
  select run_id, node_id, topic, label, subscriber, is_tuple,
    row_number() over (partition by run_id, node_id, topic, label order by round desc) as age
  from state_database_change
), crashed as (
  select distinct run_id, node_id from fault_event where kind = 'crash'
), tuple as (
  select c.run_id, c.node_id, c.topic, c.label, c.subscriber
  from changed c
  left join crashed x on x.run_id = c.run_id and x.node_id = c.node_id
  where c.age = 1 and c.is_tuple and x.node_id is null
), clean as (
  select run_id, topic from convergence where is_last and clean_round is not null
), clockwise as (
  select c.run_id, c.topic, n.node_id, sha2(n.name, 256) as point,
    case when sha2(n.name, 256) < sha2(c.topic, 256) then 1 else 0 end as is_behind
  from clean c
  join node n on n.run_id = c.run_id and n.role = 'supervisor'
), near as (
  select run_id, topic, node_id,
    row_number() over (partition by run_id, topic order by is_behind, point) as place
  from clockwise
), served as (
  select run_id, topic, node_id as supervisor from near where place = 1
), held as (
  select run_id, node_id, topic, label from (
    select run_id, node_id, topic, label,
      row_number() over (partition by run_id, node_id, topic order by round desc) as age
    from state_configuration_change
  ) state where age = 1
), found as (
  select s.run_id, s.supervisor as node_id, s.topic, concat('label ', w.label, ' is missing in its database') as what
  from served s
  join wanted w on w.run_id = s.run_id and w.topic = s.topic
  left join tuple t on t.run_id = s.run_id and t.topic = s.topic and t.node_id = s.supervisor and t.label = w.label
  where t.label is null
  union all
  select t.run_id, t.node_id, t.topic, case
    when t.node_id <> s.supervisor then concat('it has label ', t.label, ' in a database, and is not the supervisor')
    when w.label is null then concat('its database has label ', t.label, ', which is none of the first ',
      coalesce(z.n_subscribers, 0))
    when m.node_id is null then concat('label ', t.label, ' is of node ', coalesce(cast(t.subscriber as string), '-'),
      ', which is no subscriber')
    else concat('label ', t.label, ' is of node ', t.subscriber, ', whose own label is ', coalesce(h.label, '-'))
    end as what
  from tuple t
  join served s on s.run_id = t.run_id and s.topic = t.topic
  left join size z on z.run_id = t.run_id and z.topic = t.topic
  left join wanted w on w.run_id = t.run_id and w.topic = t.topic and w.label = t.label
  left join member m on m.run_id = t.run_id and m.topic = t.topic and m.node_id = t.subscriber
  left join held h on h.run_id = t.run_id and h.topic = t.topic and h.node_id = t.subscriber
  where t.node_id <> s.supervisor or w.label is null or m.node_id is null or h.label is null or h.label <> t.label
)
select run_id, cast(null as bigint) as round, node_id, cast(null as bigint) as source,
  cast(null as bigint) as source_seq, concat('topic ', topic, ': ', what) as detail
from found
"""
"""At the end the n subscribers of a topic that has been legitimate are in its database with l(0) to l(n-1).

Tuples of topics that have been legitimate which are not those of the definition at the end. A node that has crashed
has no database: a stray one of an arbitrary start (rule K21) is lost with it.
"""


MISSING = f"""
with lacking as (
  {LACKING}
), nowhere as (
  {NOWHERE}
)
select run_id, cast(null as bigint) as round, node_id, source, source_seq,
  concat('lacks it, and tries of topic ', topic, ' are compared since round ', since_round) as detail
from lacking
where is_late
union all
select run_id, issued_round as round, source as node_id, source, source_seq,
  'it has subscribed to the topic, and does not keep what it published' as detail
from nowhere
where is_member
"""  # noqa: S608 - built of constants
"""A publication that some subscriber has comes to all others, if the topic has been legitimate for long enough."""


def convergence(evidence: Evidence) -> DataFrame:
    """A topic that has had enough time is legitimate, or gets nearer to it: a livelock is not a short horizon."""
    return _of(evidence, "convergence")


def closure(evidence: Evidence) -> DataFrame:
    """Once nothing contradicts a legitimate state, no explicit edge changes until somebody comes, goes or crashes."""
    return _of(evidence, "closure")


def labels(evidence: Evidence) -> DataFrame:
    """At the end the n subscribers of a topic that has been legitimate have labels l(0) to l(n-1), each one of them."""
    return _of(evidence, "labels")


def degrees(evidence: Evidence) -> DataFrame:
    """At the end a topic that has been legitimate has the edges, degrees and diameter of the skip ring."""
    return _of(evidence, "degrees")


def departed(evidence: Evidence) -> DataFrame:
    """Once a topic is legitimate, no node and no database refers to a node that has left or crashed."""
    return _of(evidence, "departed")


def _of(evidence: Evidence, guarantee: str) -> DataFrame:
    broken = evidence.keep("skipring_broken", lambda: violations(evidence.reader))
    no_message = ("cast(null as bigint) as source", "cast(null as bigint) as source_seq")
    return broken.where(f"guarantee = '{guarantee}'").selectExpr("*", *no_message).select(*FOUND)


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


AUDITS = (
    Audit("convergence", "a topic becomes legitimate: with enough time it neither repeats a state nor stands still",
          convergence),
    Audit("closure", "once a topic is legitimate, no explicit edge changes until somebody comes or goes", closure),
    Audit("labels", "the subscribers of a legitimate topic have the first labels, each of them one", labels),
    Audit("database", "the database of a legitimate topic has its subscribers with the first labels", WRONG_TUPLES),
    Audit("degrees", "a legitimate topic has the edges, degrees and diameter of the skip ring", degrees),
    Audit("departed", "once a topic is legitimate, nobody refers to a node that has left or crashed", departed),
    Audit(
        "published_everywhere", "once a topic is legitimate for long enough, every subscriber has every publication",
        MISSING,
    ),
    Audit("tries", "every trie has the structure, keys and hashes of its publications", UNSOUND),
    Audit("flooding", "a publication that is flooded goes over all edges of whoever takes it", FLOODED),
)  # fmt: skip

"""The guarantees of protocol ``gossipsub`` beside the general ones, from messages and from state at the end."""

from __future__ import annotations

from pipelines.contract.audit import Audit

_SETTING = "cast(get_json_object(r.parameters, \"$['protocol.{name}']\") as bigint)"
_D_HI, _HISTORY_GOSSIP, _HEARTBEAT = (
    _SETTING.format(name=name) for name in ("d_hi", "history_gossip", "heartbeat_rounds")
)
_IDS = "explode(from_json(get_json_object(body, '$.ids'), 'array<struct<source:bigint,source_seq:bigint>>')) as id"
_NO_MESSAGE = "cast(null as bigint) as source, cast(null as bigint) as source_seq"

LOPSIDED = f"""
with mesh as (
  select run_id, topic, node_id, explode(mesh) as peer from state_topic where is_joined
), moving as (
  select distinct run_id, get_json_object(body, '$.topic') as topic, src as node_id, dst as peer
  from sent_message
  where kind in ('GRAFT', 'PRUNE', 'ANNOUNCE') and fate = 'in_flight'
), changed as (
  select run_id, topic, node_id, peer from moving
  union
  select run_id, topic, peer as node_id, node_id as peer from moving
)
select m.run_id, cast(null as bigint) as round, m.node_id, {_NO_MESSAGE},
  concat('topic ', m.topic, ': has ', n.name, ' in its mesh, and is not in that of ', n.name) as detail
from mesh m
join node n on n.run_id = m.run_id and n.node_id = m.peer
left join mesh b on b.run_id = m.run_id and b.topic = m.topic and b.node_id = m.peer and b.peer = m.node_id
left join changed c on c.run_id = m.run_id and c.topic = m.topic and c.node_id = m.node_id and c.peer = m.peer
where b.run_id is null and c.run_id is null
"""  # noqa: S608 - built of constants
"""Of two nodes that are up at the end each has the other in its mesh, or none has.

A node in a mesh without the reverse, where no message between the two is in flight that may mend it.
"""

OVERFULL = f"""
with last as (
  select run_id, max(coalesce(due_round, sent_round)) as round from sent_message group by run_id
), grown as (
  select m.run_id, m.dst as node_id, max(m.due_round) as round
  from sent_message m
  where m.kind = 'GRAFT' and m.fate = 'delivered'
  group by m.run_id, m.dst
)
select t.run_id, cast(null as bigint) as round, t.node_id, {_NO_MESSAGE},
  concat('topic ', t.topic, ': ', size(t.mesh), ' neighbours in the mesh, d_hi is ', {_D_HI}) as detail
from state_topic t
join run r on r.run_id = t.run_id
join last l on l.run_id = t.run_id
left join grown g on g.run_id = t.run_id and g.node_id = t.node_id
where size(t.mesh) > {_D_HI} and coalesce(g.round, -1) + {_HEARTBEAT} <= l.round
"""  # noqa: S608 - built of constants
"""After a heartbeat no mesh has more than D_hi neighbours.

A mesh above D_hi that no GRAFT has enlarged since the last heartbeat.
"""

UNGRAFTED = """
with pushed as (
  select run_id, get_json_object(body, '$.topic') as topic, src, dst, source, source_seq, min(sent_round) as round
  from sent_message
  where kind = 'PUB' and src <> source
  group by run_id, get_json_object(body, '$.topic'), src, dst, source, source_seq
), grafted as (
  select run_id, topic, node_id, peer, min(round) as round
  from (
    select run_id, get_json_object(body, '$.topic') as topic, src as node_id, dst as peer, sent_round as round
    from sent_message
    where kind = 'GRAFT'
    union all
    select run_id, get_json_object(body, '$.topic') as topic, dst as node_id, src as peer, due_round as round
    from sent_message
    where kind = 'GRAFT' and fate = 'delivered'
  )
  group by run_id, topic, node_id, peer
)
select p.run_id, p.round, p.src as node_id, p.source, p.source_seq,
  concat('pushed to node ', p.dst, ', and no GRAFT came from there or went there') as detail
from pushed p
left join grafted g on g.run_id = p.run_id and g.topic = p.topic and g.node_id = p.src and g.peer = p.dst
  and g.round <= p.round
where g.run_id is null
"""
"""A node passes publications of others on over links that a GRAFT has added to the mesh.

A publication that a node which has not issued it pushes over a link that has not been in the mesh.
"""

UNASKED = f"""
with asked as (
  select run_id, src, dst, due_round, {_IDS} from sent_message where kind = 'IWANT' and fate = 'delivered'
)
select m.run_id, m.sent_round as round, m.src as node_id, m.source, m.source_seq,
  concat('REPLY to node ', m.dst, ', which has not asked for it') as detail
from sent_message m
left join asked a on a.run_id = m.run_id and a.src = m.dst and a.dst = m.src and a.due_round = m.sent_round
  and a.id.source = m.source and a.id.source_seq = m.source_seq
where m.kind = 'REPLY' and a.run_id is null
"""  # noqa: S608 - built of constants
"""A REPLY answers an IWANT of the same round that names its publication."""

GOSSIPED_TOO_OFTEN = f"""
with told as (
  select distinct run_id, src, dst, sent_round, {_IDS} from sent_message where kind = 'IHAVE'
), counted as (
  select run_id, src, id.source as source, id.source_seq as source_seq, max(sent_round) as round,
    count(distinct sent_round) as n_heartbeats
  from told
  group by run_id, src, id.source, id.source_seq
), crashed as (
  select distinct run_id, node_id from fault_event where kind = 'crash'
)
select c.run_id, c.round, c.src as node_id, c.source, c.source_seq,
  concat('gossiped about in ', c.n_heartbeats, ' heartbeats, history_gossip is ', {_HISTORY_GOSSIP}) as detail
from counted c
join run r on r.run_id = c.run_id
left join crashed x on x.run_id = c.run_id and x.node_id = c.src
where c.n_heartbeats > {_HISTORY_GOSSIP} and x.run_id is null
"""  # noqa: S608 - built of constants
"""A node gossips about a publication in at most ``history_gossip`` heartbeats.

A node that has crashed may have had the publication, and its cache, twice.
"""

UNDECIDED = f"""
select m.run_id, min(m.publication_round) as round,
  concat(count(1), ' deliveries are missing, and gossip about their publications goes on') as reason
from missing_delivery m
join (
  select distinct c.run_id, c.source, c.source_seq
  from state_cached c
  join run r on r.run_id = c.run_id
  where c.age < {_HISTORY_GOSSIP}
) c on c.run_id = m.run_id and c.source = m.source and c.source_seq = m.source_seq
group by m.run_id
"""  # noqa: S608 - built of constants
"""The runs that ended while a heartbeat could still bring what is missing."""

WAITS = f"""
select c.run_id, c.node_id, c.source, c.source_seq, concat('it is in the cache of ', n.name, ', which gossips about it'
  , ' in ', {_HISTORY_GOSSIP} - c.age, ' more heartbeats') as reason
from state_cached c
join run r on r.run_id = c.run_id
join node n on n.run_id = c.run_id and n.node_id = c.node_id
where c.age < {_HISTORY_GOSSIP}
"""  # noqa: S608 - built of constants
"""Why a publication may still come: what `pipelines.why` tells."""


AUDITS = (
    Audit("symmetric_mesh", "of two nodes each has the other in its mesh, or none has", LOPSIDED),
    Audit("bounded_mesh", "after a heartbeat no mesh has more than `d_hi` neighbours", OVERFULL),
    Audit(
        "pushes_over_mesh", "a node pushes what others published over grafted links only",
        UNGRAFTED, is_unconditional=True,
    ),
    Audit(
        "replies_when_asked", "a REPLY answers an IWANT that names its publication",
        UNASKED, is_unconditional=True,
    ),
    Audit(
        "bounded_gossip", "a node gossips about a publication in at most `history_gossip` heartbeats",
        GOSSIPED_TOO_OFTEN, is_unconditional=True,
    ),
)  # fmt: skip

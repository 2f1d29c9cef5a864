"""Epidemic recovery for content-based publish/subscribe (Costa, Migliavacca, Picco, Cugola, DEBS 2003)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipelines.contract.audit import Audit, sql_files
from pipelines.contract.protocol import Protocol
from pipelines.contract.settings import Flag, Share, Strict
from udfs.epidemic.program import Epidemic

BOUND = """
select run_id, min(round) as round, 'a dispatcher crashed' as reason
from fault_event
where kind = 'crash'
group by run_id
union all
select run_id, min(round) as round, 'a link was replaced' as reason
from fault_event
where kind = 'link'
group by run_id
union all
select s.run_id, min(s.issued_round) as round, 'push brings later subscribers earlier events, in no order' as reason
from subscription s
join (select run_id, min(issued_round) as first_round from publication group by run_id) p on p.run_id = s.run_id
join run r on r.run_id = s.run_id
where s.issued_round >= p.first_round
  and get_json_object(r.parameters, "$['protocol.recovery']") in ('push', 'push_pull')
group by s.run_id
"""
"""Runs with crashes or a tree that changes, beside those that lose messages: what is delivered then is a matter of
chance, so none is owed. And runs with push in which somebody subscribes after the first publication.
"""


_SQL = sql_files("pipelines.protocols.epidemic.audits")
RELATIONS = {name: _SQL[name] for name in ("setting", "gossip", "entry", "counted")}
"""The rows that several audits read."""
AUDITS: tuple[Audit, ...] = (
    Audit(
        "delivered_once", "a subscriber gets each event at most once, and only matching ones, whatever is lost",
        "select * from stray_delivery", is_unconditional=True,
    ),
    Audit("bounded_cache", "no cache holds more than `buffer` events", _SQL["bounded_cache"], is_unconditional=True),
    Audit(
        "own_events_last", "caches that discard foreign events first keep their own as long as there are others",
        _SQL["own_events_last"], is_unconditional=True,
    ),
    Audit(
        "gossip_on_time", "gossip rounds of a dispatcher are whole intervals apart",
        _SQL["gossip_on_time"], is_unconditional=True,
    ),
    Audit(
        "one_label", "a digest is about one pattern or one source, and never empty",
        _SQL["one_label"], is_unconditional=True,
    ),
    Audit(
        "fanout", "gossip goes to at most `fanout` neighbours for each copy, and never back",
        _SQL["fanout"], is_unconditional=True,
    ),
    Audit(
        "answered_leave", "events that are answered leave a publisher's digest",
        _SQL["answered_leave"], is_unconditional=True,
    ),
    Audit(
        "tree_copies_pass", "a dispatcher passes on copies of the tree, once, and no replies",
        _SQL["tree_copies_pass"], is_unconditional=True,
    ),
    Audit(
        "asks_for_gaps", "a dispatcher asks for what a later event has shown to be missing",
        _SQL["asks_for_gaps"], is_unconditional=True,
    ),
    Audit(
        "asks_for_own", "a dispatcher asks for events of its own clients' patterns",
        _SQL["asks_for_own"], is_unconditional=True,
    ),
    Audit(
        "counters", "a source's counters count from 1 without a gap",
        _SQL["counters"], is_unconditional=True,
    ),
    Audit(
        "gives_up", "a loss is given up after `lost_rounds`, and LostBuffer is bounded",
        _SQL["gives_up"], is_unconditional=True,
    ),
    Audit(
        "newest_route", "gossip to a publisher goes the way of its newest event back",
        _SQL["newest_route"], is_unconditional=True,
    ),
    Audit(
        "tables_return", "neighbours that are linked again tell each other their clients' patterns",
        _SQL["tables_return"], is_unconditional=True,
    ),
    Audit(
        "crash_empties_cache", "no dispatcher answers with events from before its crash",
        _SQL["crash_empties_cache"], is_unconditional=True,
    ),
)  # fmt: skip


_Rounds = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
_Size = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]


class EpidemicSettings(Strict):
    """Settings of protocol ``epidemic``."""

    name: Literal["epidemic"] = "epidemic"
    recovery: Literal["none", "push", "subscriber_pull", "publisher_pull", "combined_pull", "push_pull"] = Field(
        "combined_pull", description="how lost events are recovered; combined_pull: both pulls, push_pull: all three"
    )
    gossip_rounds: _Rounds = Field(10, description="the gossip interval T, in rounds")
    p_forward: Share = Field(0.75, description="P_forward: chance that a dispatcher passes a gossip message on")
    fanout: _Size = Field(
        1, description="towards subscribers: largest number of drawn neighbours that receive a gossip message"
    )
    push_draw: Literal["every_hop", "subscribers"] = Field(
        "every_hop", description="push: where P_forward is drawn; subscribers: others always pass gossip messages on"
    )
    push_patterns: Literal["all", "local"] = Field(
        "all", description="push: a gossip round is for any pattern of the subscription table, or for a local one"
    )
    push_rounds: _Rounds = Field(
        200, description="push: rounds for which a dispatcher gossips after it cached its newest event"
    )
    gossip_on_detection: Flag = Field(False, description="pull: gossip at once when a loss is detected, too")
    adaptive: Flag = Field(
        False, description="halve the interval after a gossip round before which losses were seen, else double it"
    )
    gossip_rounds_min: _Rounds = Field(2, description="adaptive: the shortest interval, in rounds")
    gossip_rounds_max: _Rounds = Field(80, description="adaptive: the longest interval, in rounds")
    buffer: _Size = Field(100, description="events that a dispatcher's cache holds")
    caching: Literal["all", "subscriber_or_source"] = Field(
        "all", description="which events a dispatcher caches: all that pass, or those it published or subscribes to"
    )
    eviction: Literal["oldest", "foreign_first", "random"] = Field(
        "oldest",
        description="what a full cache discards: the oldest; the oldest that the dispatcher neither published nor"
        " subscribes to, if any; or by age with a random delay of up to `buffer` events",
    )
    broken_route: Literal["drop", "unicast"] = Field(
        "drop", description="publisher pull, where the next dispatcher on a route is linked no more: drop, or unicast"
    )
    lost_buffer: _Size = Field(1000, description="pull: losses that a dispatcher's LostBuffer holds, newest first")
    lost_rounds: _Rounds = Field(200, description="pull: rounds after which a loss is given up")
    out_of_band_rounds: _Rounds = Field(1, description="latency of requests and replies by unicast, in rounds")
    out_of_band_loss: Share = Field(0.0, description="share of requests and replies that the unicast loses")


PROTOCOL = Protocol(
    name="epidemic",
    summary="subscription forwarding with epidemic recovery of lost events: push and pull gossip, event caches",
    settings=EpidemicSettings,
    program=Epidemic,
    audits=AUDITS,
    audit_relations=RELATIONS,
    bound=BOUND,
    assumes=frozenset({"no_loss", "order"}),
    keeps_source_order=True,
    builds_overlay=True,
    needs_tree=True,
    variants=tuple({"recovery": one} for one in ("none", "push", "combined_pull", "push_pull")),
    application=("EVENT",),
    recovery=(
        "GOSSIP",
        "REQUEST",
        "REPLY",
    ),
    views="pipelines.protocols.epidemic.views",
)

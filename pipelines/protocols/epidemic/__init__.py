"""Protocol ``epidemic``: content-based publish/subscribe with epidemic recovery of lost events (DEBS 2003).

The paper is by Costa, Migliavacca, Picco and Cugola. The module declares the settings, the audits, and the bound: the
set of faults that the protocol tolerates.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from pipelines.contract.audit import sql_audits, sql_files
from pipelines.contract.protocol import Protocol
from pipelines.contract.settings import Flag, Natural, Share, Strict
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
"""
"""SQL for the runs with faults beyond the bound: ``run_id``, the first ``round`` of the faults, and ``reason``.

After a crash or the replacement of a link, deliveries depend on random draws, so the audits require no delivery.
"""
_SQL = sql_files("pipelines.protocols.epidemic.audits")
_RELATIONS = ("link_change", "gossip", "entry", "request_entry", "arrival", "counted", "client_pattern")


class EpidemicSettings(Strict):
    """Settings of protocol ``epidemic``."""

    name: Literal["epidemic"] = Field("epidemic", description="selects this protocol")
    recovery: Literal["none", "push", "subscriber_pull", "publisher_pull", "combined_pull", "push_pull"] = Field(
        "combined_pull",
        description="recovery of lost events; combined_pull: subscriber_pull and publisher_pull; push_pull: push and"
        " combined_pull",
    )
    gossip_rounds: Natural = Field(10, description="the gossip interval T, in rounds")
    p_forward: Share = Field(0.75, description="P_forward: probability that a dispatcher forwards a gossip message")
    fanout: Natural = Field(
        1,
        description="maximum number of random neighbours to which a dispatcher sends a gossip message that goes "
        "towards subscribers",
    )
    push_draw: Literal["every_hop", "subscribers"] = Field(
        "every_hop",
        description="push: dispatchers that forward a digest with probability p_forward instead of always; every_hop: "
        "all dispatchers; subscribers: dispatchers with clients for the digest's pattern",
    )
    push_patterns: Literal["all", "local"] = Field(
        "all",
        description="push: patterns among which a gossip round chooses; all: the patterns in the subscription table; "
        "local: the patterns of the dispatcher's clients",
    )
    push_rounds: Natural = Field(
        200, description="push: a dispatcher gossips until this number of rounds after it cached its newest event"
    )
    gossip_on_detection: Flag = Field(
        False, description="pull: whether a dispatcher also gossips in each round in which it detects a loss"
    )
    adaptive: Flag = Field(
        False,
        description="whether the gossip interval changes after each gossip round: it is halved if a loss was detected "
        "or a REQUEST arrived since the previous gossip round, else doubled",
    )
    gossip_rounds_min: Natural = Field(2, description="adaptive: the shortest interval, in rounds")
    gossip_rounds_max: Natural = Field(80, description="adaptive: the longest interval, in rounds")
    buffer: Natural = Field(100, description="maximum number of events in a dispatcher's cache")
    caching: Literal["all", "subscriber_or_source"] = Field(
        "all",
        description="all: a dispatcher caches every event that it receives or publishes; subscriber_or_source: only "
        "events that it published or subscribes to",
    )
    eviction: Literal["oldest", "foreign_first", "random"] = Field(
        "oldest",
        description="event that a full cache discards; oldest: the oldest; foreign_first: the oldest that the "
        "dispatcher neither published nor subscribes to, else the oldest; random: a random event, older "
        "events with a higher probability",
    )
    broken_route: Literal["drop", "unicast"] = Field(
        "drop",
        description="publisher pull: whether a gossip message is dropped or sent by unicast if the link to the next "
        "dispatcher of its route has ended",
    )
    lost_buffer: Natural = Field(
        1000, description="pull: maximum number of lost events in LostBuffer; a full LostBuffer drops the oldest entry"
    )
    lost_rounds: Natural = Field(
        200, description="pull: rounds from the detection of a loss until the dispatcher no longer requests the event"
    )
    out_of_band_rounds: Natural = Field(1, description="latency of requests and replies by unicast, in rounds")
    out_of_band_loss: Share = Field(0.0, description="probability that unicast loses a request or reply")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.gossip_rounds_min > self.gossip_rounds_max:
            given = f"gossip_rounds_min is {self.gossip_rounds_min}, gossip_rounds_max {self.gossip_rounds_max}"
            raise ValueError(f"{given}; allowed: gossip_rounds_min <= gossip_rounds_max")
        return self


PROTOCOL = Protocol(
    name="epidemic",
    summary="subscription forwarding with epidemic recovery of lost events: push and pull gossip, event caches",
    settings=EpidemicSettings,
    program=Epidemic,
    audits=sql_audits("pipelines.protocols.epidemic.audits"),
    audit_relations={name: _SQL[name] for name in _RELATIONS},
    bound=BOUND,
    assumes=frozenset({"no_loss", "order"}),
    keeps_source_order=True,
    starts_by_joins=True,
    needs_tree=True,
    variants=tuple({"recovery": one} for one in ("none", "push", "combined_pull", "push_pull")),
    application=("EVENT",),
    recovery=("GOSSIP", "REQUEST", "REPLY"),
    views="pipelines.protocols.epidemic.views",
)

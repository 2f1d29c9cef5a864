"""Epidemic recovery for content-based publish/subscribe (Costa, Migliavacca, Picco, Cugola, DEBS 2003)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipelines.contract.protocol import Protocol
from pipelines.contract.settings import Flag, Share, Strict
from pipelines.protocols.epidemic.audits import AUDITS
from pipelines.protocols.epidemic.bound import BOUND
from udfs.epidemic.program import Epidemic

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
    fanout: _Size = Field(1, description="towards subscribers: at most so many neighbours, drawn, get a gossip message")
    push_draw: Literal["every_hop", "subscribers"] = Field(
        "every_hop", description="push: where P_forward is drawn; subscribers: others always pass gossip messages on"
    )
    push_patterns: Literal["all", "local"] = Field(
        "all", description="push: a gossip round is for any pattern of the subscription table, or for a local one"
    )
    push_rounds: _Rounds = Field(
        200, description="push: a dispatcher gossips for so many rounds after it cached its newest event"
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

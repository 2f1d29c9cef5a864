"""The settings of protocol ``gossipsub``."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipelines.contract.settings import Flag, Share, Strict

_Degree = Annotated[int, Field(ge=0, le=1_000, strict=True)]
_Rounds = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
_Heartbeats = Annotated[int, Field(ge=1, le=100_000, strict=True)]


class GossipSubSettings(Strict):
    """Settings of protocol ``gossipsub``; defaults are those of the specification."""

    name: Literal["gossipsub"] = "gossipsub"
    d: _Degree = Field(6, description="D: neighbours that a node wants in the mesh of a topic")
    d_lo: _Degree = Field(4, description="D_lo: with fewer neighbours in the mesh a node grafts others")
    d_hi: _Degree = Field(12, description="D_hi: with more neighbours in the mesh a node prunes some")
    d_lazy: _Degree = Field(6, description="D_lazy: neighbours outside the mesh that a heartbeat gossips to, at least")
    d_out: _Degree = Field(2, description="D_out: neighbours in the mesh whose connection the node has opened itself")
    gossip_factor: Share = Field(
        0.25, description="share of the neighbours outside the mesh that a heartbeat gossips to, if that is more"
    )
    heartbeat_rounds: _Rounds = Field(
        100, description="rounds from one heartbeat to the next; the specification has 1 s"
    )
    history_length: _Heartbeats = Field(5, description="mcache_len: heartbeats that a publication stays in the cache")
    history_gossip: _Heartbeats = Field(3, description="mcache_gossip: heartbeats that gossip about a publication")
    prune_backoff: _Heartbeats = Field(60, description="heartbeats after a PRUNE in which neither end grafts the other")
    unsubscribe_backoff: _Heartbeats = Field(10, description="the same where the PRUNE comes of leaving the topic")
    fanout_ttl: _Heartbeats = Field(
        60, description="heartbeats after its last publication to a topic that it has not joined for which a node keeps"
        " the fanout"
    )  # fmt: skip
    seen_ttl: _Heartbeats = Field(120, description="heartbeats for which a node remembers a publication")
    flood_publish: Flag = Field(
        True, description="a publisher sends to all neighbours of the topic, not to its mesh or fanout"
    )
    relay: Flag = Field(
        True,
        description="brokers join all topics; false: only subscribers do, as in the specification, and these have to be"
        " joined by links between themselves",
    )
    detection_rounds: _Rounds = Field(5, description="rounds from a crash to the end of its connections")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.d_lo <= self.d <= self.d_hi:
            raise ValueError(f"d is {self.d}, d_lo {self.d_lo}, d_hi {self.d_hi}; allowed: d_lo <= d <= d_hi")
        if self.d_out and (self.d_out >= self.d_lo or 2 * self.d_out > self.d):
            given = f"d_out is {self.d_out}, d_lo {self.d_lo}, d {self.d}"
            raise ValueError(f"{given}; allowed: 0, or less than d_lo and at most half of d")
        if self.history_gossip > self.history_length:
            given = f"history_gossip is {self.history_gossip}, history_length {self.history_length}"
            raise ValueError(f"{given}; allowed: history_gossip <= history_length")
        if self.seen_ttl <= self.history_length:
            given = f"seen_ttl is {self.seen_ttl}, history_length {self.history_length}"
            raise ValueError(f"{given}; allowed: history_length < seen_ttl, or gossip brings publications again")
        return self

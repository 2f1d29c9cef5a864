"""The self-stabilizing supervised skip ring (Feldmann, Kolb, Scheideler, Strothmann)."""

from __future__ import annotations

from pipelines.contract.protocol import Protocol
from pipelines.protocols.skipring.audits import AUDITS
from pipelines.protocols.skipring.check import problems
from pipelines.protocols.skipring.publications import UNDECIDED, WAITS
from pipelines.protocols.skipring.replay import VIEWS
from pipelines.protocols.skipring.settings import SkipRingSettings
from udfs.skipring.program import SkipRing

PROTOCOL = Protocol(
    name="skipring",
    summary="self-stabilizing supervised skip ring: a ring a topic, healing from any state",
    settings=SkipRingSettings,
    program=SkipRing,
    audits=AUDITS,
    undecided=UNDECIDED,
    waits={"trie_node": WAITS},
    made_views=VIEWS,
    application=("PublishNew",),
    recovery=(
        "Publish",
        "CheckTrie",
        "CheckAndPublish",
    ),
    views="pipelines.protocols.skipring.views",
    check=problems,
    maintenance=("Introduce", "IntroduceShortcut", "SetData", "GetConfiguration", "CheckTrie"),
    makes_overlay=True,
    edges="held_edge",
)

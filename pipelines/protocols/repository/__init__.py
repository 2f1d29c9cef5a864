"""Reliable delivery through repositories (Pallickara, Bulut, Fox: NaradaBrokering)."""

from __future__ import annotations

from pipelines.contract.protocol import Protocol
from pipelines.protocols.repository.audits import AUDITS
from pipelines.protocols.repository.audits.delivery import UNDECIDED
from pipelines.protocols.repository.bound import beyond
from pipelines.protocols.repository.check import problems
from pipelines.protocols.repository.settings import RepositorySettings
from pipelines.protocols.repository.waits import WAITED, WAITS
from udfs.repository.program import Repository

PROTOCOL = Protocol(
    name="repository",
    summary="publish/subscribe with storage: repositories number, keep and recover what is published",
    settings=RepositorySettings,
    program=Repository,
    audits=AUDITS,
    bound=beyond,
    undecided=UNDECIDED,
    waits=WAITS,
    waited=WAITED,
    confirms=True,
    confirms_delivery=False,
    variants=({}, {"bundle_size": 1}, {"bundle_size": 2}, {"baseline": True}),
    draws=False,
    application=(
        "Message",
        "P2R-Order",
        "R2S*-Persistent",
    ),
    acknowledgement=(
        "R2P-ACK",
        "S2R-ACK",
        "R2S-Sync",
        "Gossip-ACK",
    ),
    recovery=(
        "P2R-Retransmit",
        "P2R-Recovery",
        "R2P-NAK",
        "R2P-Recovery",
        "R2S-Retransmit",
        "R2S-Rectify",
        "S2R-NAK",
        "S2R-Recovery",
        "R2R-NAK",
        "R2R-Retransmit",
        "R2R-Assist",
        "R2R-Recovery",
        "Broker-Up",
    ),
    views="pipelines.protocols.repository.views",
    check=problems,
    maintenance=(
        "Gossip-ACK",
        "Gossip-LEAVE",
        "C2R-Probe",
        "R2C-Probe",
        "P2R-Recovery",
        "P2R-Order",
        "R2P-ACK",
        "R2P-NAK",
        "S2R-Recovery",
        "R2S-Rectify",
        "R2R-NAK",
        "R2R-Assist",
        "R2R-Recovery",
        "R2C-Migrate",
        "Refuse",
    ),
    servers="repository",
    calls=("steer", "register", "deregister", "join", "leave", "remove"),
)

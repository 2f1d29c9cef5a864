"""Protocol ``repository``: the node program `udfs.repository.program` as the engine sees it."""

from __future__ import annotations

from pipelines.contract.nodes import NodeProtocol
from pipelines.protocols.repository.audits import AUDITS
from pipelines.protocols.repository.audits.delivery import UNDECIDED
from pipelines.protocols.repository.bound import beyond
from pipelines.protocols.repository.waits import WAITED, WAITS
from udfs.repository.program import Repository

PROTOCOL = NodeProtocol(Repository, audits=AUDITS, bound=beyond, undecided=UNDECIDED, waits=WAITS, waited=WAITED)

"""The guarantees of protocol ``skipring`` beside the general ones."""

from __future__ import annotations

from pipelines.contract.audit import Audit
from pipelines.protocols.skipring.audits.database import WRONG_TUPLES
from pipelines.protocols.skipring.audits.publications import MISSING
from pipelines.protocols.skipring.audits.ring import closure, convergence, degrees, departed, labels
from pipelines.protocols.skipring.audits.tries import FLOODED, UNSOUND

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

"""The guarantees of protocol ``skipring`` beside the general ones, one SQL file each.

`broken_topic` is Python: it plays the history of each topic again (`udfs.skipring.replay`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import Audit, Evidence, Relation, sql_files
from pipelines.protocols.skipring.replay import violations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SQL = sql_files("pipelines.protocols.skipring.audits")
UNDECIDED, WAITS = _SQL["undecided"], _SQL["waits"]


def broken_topic(evidence: Evidence) -> DataFrame:
    """Returns the breaches of topics after they were legitimate (sections 1.1 and 2.1, rule K9)."""
    return violations(evidence.reader)


def _of_topic(guarantee: str) -> str:
    return f"""
select run_id, round, node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq, detail
from broken_topic
where guarantee = '{guarantee}'
"""  # noqa: S608 - a name of an audit


RELATIONS: dict[str, Relation] = {"lacking": _SQL["lacking"], "nowhere": _SQL["nowhere"], "broken_topic": broken_topic}
AUDITS = (
    Audit(
        "convergence",
        "a topic becomes legitimate: with enough time it neither repeats a state nor stands still",
        _of_topic("convergence"),
    ),
    Audit(
        "closure",
        "once a topic is legitimate, no explicit edge changes until somebody comes or goes",
        _of_topic("closure"),
    ),
    Audit(
        "labels",
        "the subscribers of a legitimate topic have the first labels, each of them one",
        _of_topic("labels"),
    ),
    Audit("database", "the database of a legitimate topic has its subscribers with the first labels", _SQL["database"]),
    Audit("degrees", "a legitimate topic has the edges, degrees and diameter of the skip ring", _of_topic("degrees")),
    Audit(
        "departed",
        "once a topic is legitimate, nobody refers to a node that has left or crashed",
        _of_topic("departed"),
    ),
    Audit(
        "published_everywhere",
        "once a topic is legitimate for long enough, every subscriber has every publication",
        _SQL["published_everywhere"],
    ),
    Audit("tries", "every trie has the structure, keys and hashes of its publications", _SQL["tries"]),
    Audit("flooding", "a publication that is flooded goes over all edges of whoever takes it", _SQL["flooding"]),
)

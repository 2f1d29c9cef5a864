"""What a topic keeps once it is legitimate (sections 1.1 and 2.1, rule K9), from its history played again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import FOUND, Evidence
from pipelines.protocols.skipring.replay import violations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_MESSAGE = ("cast(null as bigint) as source", "cast(null as bigint) as source_seq")


def convergence(evidence: Evidence) -> DataFrame:
    """A topic that has had enough time is legitimate, or gets nearer to it: a livelock is not a short horizon."""
    return _of(evidence, "convergence")


def closure(evidence: Evidence) -> DataFrame:
    """Once nothing contradicts a legitimate state, no explicit edge changes until somebody comes, goes or crashes."""
    return _of(evidence, "closure")


def labels(evidence: Evidence) -> DataFrame:
    """At the end the n subscribers of a topic that has been legitimate have labels l(0) to l(n-1), each one of them."""
    return _of(evidence, "labels")


def degrees(evidence: Evidence) -> DataFrame:
    """At the end a topic that has been legitimate has the edges, degrees and diameter of the skip ring."""
    return _of(evidence, "degrees")


def departed(evidence: Evidence) -> DataFrame:
    """Once a topic is legitimate, no node and no database refers to a node that has left or crashed."""
    return _of(evidence, "departed")


def _of(evidence: Evidence, guarantee: str) -> DataFrame:
    broken = evidence.keep("skipring_broken", lambda: violations(evidence.reader))
    return broken.where(f"guarantee = '{guarantee}'").selectExpr("*", *_NO_MESSAGE).select(*FOUND)

"""Predicates: the conjunctions that subscriptions are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "prefix", "suffix", "contains"]


@dataclass(frozen=True)
class Predicate:
    """One comparison of an attribute with a value.

    Attributes:
        attribute: Name of the attribute; ``topic`` is the publication's topic.
        op: One of ``= != < <= > >= prefix suffix contains``.
        value: A number (float) or a text; ``prefix suffix contains`` take texts only.
    """

    attribute: str
    op: Operator
    value: float | str

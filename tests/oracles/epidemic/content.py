"""Content matching that compares each publication with each predicate."""

from __future__ import annotations

import operator
from collections import defaultdict
from typing import Any

from pipelines.contract.run_inputs import Inputs

_COMPARE = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def matching(inputs: Inputs, run_id: int) -> tuple[dict[int, int], dict[tuple[int, int], tuple[int, ...]]]:
    """Returns the pattern of each subscription of a run, and the patterns that each publication of the run matches."""
    subscription = [row for row in inputs.subscription.to_pylist() if row["run_id"] == run_id]
    first: dict[str, int] = {}
    for row in sorted(subscription, key=lambda row: row["subscription_id"]):
        first.setdefault(row["predicate"], row["subscription_id"])
    patterns = {row["subscription_id"]: first[row["predicate"]] for row in subscription}
    predicates: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in inputs.predicate.to_pylist():
        if row["run_id"] == run_id and row["subscription_id"] in set(patterns.values()):
            predicates[row["subscription_id"]].append(row)
    contents: dict[tuple[int, int], dict[str, Any]] = {
        (row["source"], row["source_seq"]): {} for row in inputs.publication.to_pylist() if row["run_id"] == run_id
    }
    for row in inputs.attribute.to_pylist():
        if row["run_id"] == run_id:
            value = row["text"] if row["number"] is None else row["number"]
            contents[row["source"], row["source_seq"]][row["attribute"]] = value
    found = {
        key: tuple(sorted(p for p, comparisons in predicates.items() if all(_holds(c, content) for c in comparisons)))
        for key, content in contents.items()
    }
    return patterns, found


def _holds(comparison: dict[str, Any], content: dict[str, Any]) -> bool:
    wanted = comparison["text"] if comparison["number"] is None else comparison["number"]
    value = content.get(comparison["attribute"])
    return isinstance(value, type(wanted)) and _COMPARE[comparison["op"]](value, wanted)

"""Content matching: which subscriptions a publication satisfies, by counting satisfied comparisons.

A subscription with an equality is looked up by one of them (its *anchor*), so that candidates come from a hash join on
the value; the others come from a join on one of their attributes. A candidate matches when as many of the
subscription's comparisons hold for the publication's attributes as it has.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F


def _compared(op: str) -> str:
    """Returns SQL for a comparison: of strings, of whole numbers (exact), or of doubles."""
    return (
        f"case when number is null then value_text {op} text "
        f"when whole is null or value_whole is null then value_number {op} number else value_whole {op} whole end"
    )


_COMPARISONS = f"""case op
  when '=' then {_compared("=")}
  when '!=' then (number is null and value_text is null) or (number is not null and value_number is null)
    or {_compared("<>")}
  when '<' then {_compared("<")}
  when '<=' then {_compared("<=")}
  when '>' then {_compared(">")}
  when '>=' then {_compared(">=")}
  when 'prefix' then startswith(value_text, text)
  when 'suffix' then endswith(value_text, text)
  when 'contains' then contains(value_text, text)
  when 'filter' then regexp_like(concat(value_text, '/'), text)
end"""
_PUBLICATION = ["run_id", "source", "source_seq"]
_RANK = """row_number() over (
  partition by run_id, subscription_id order by op <> '=', attribute = 'topic', attribute, op, text, number, whole)"""
"""Comparisons that tie are the same."""


def anchored_predicates(predicate: DataFrame) -> DataFrame:
    """Adds ``position`` (1 for the anchor) and ``n_comparisons`` of the subscription to each comparison."""
    return predicate.selectExpr(
        "*", f"{_RANK} as position", "count(1) over (partition by run_id, subscription_id) as n_comparisons"
    )


def matches(attribute: DataFrame, anchored: DataFrame) -> DataFrame:
    """Returns the matching pairs of publications and subscriptions.

    Args:
        attribute: ``run_id, source, source_seq, attribute, number, whole, text``; one row an attribute.
        anchored: `anchored_predicates`.

    Returns:
        ``run_id, source, source_seq, matches``: the sorted ids of matching subscriptions; publications that match
        none are left out.
    """
    value = attribute.selectExpr(
        *_PUBLICATION, "attribute", "number as value_number", "whole as value_whole", "text as value_text"
    )
    anchor = anchored.where("position = 1").select("run_id", "subscription_id", "attribute", "op", "number", "text")
    equal = anchor.where("op = '='")
    by_text = equal.where("text is not null").withColumnRenamed("text", "value_text").drop("number", "op")
    by_number = equal.where("number is not null").withColumnRenamed("number", "value_number").drop("text", "op")
    others = anchor.where("op <> '='").select("run_id", "subscription_id", "attribute")
    pair = [*_PUBLICATION, "subscription_id"]
    candidate = (
        value.join(by_text, ["run_id", "attribute", "value_text"]).select(pair)
        .unionAll(value.join(by_number, ["run_id", "attribute", "value_number"]).select(pair))
        .unionAll(value.join(others, ["run_id", "attribute"]).select(pair))
    )  # fmt: skip
    compared = candidate.join(anchored, ["run_id", "subscription_id"]).join(value, [*_PUBLICATION, "attribute"])
    return (
        compared.where(_COMPARISONS)
        .groupBy(*pair, "n_comparisons")
        .agg(F.expr("count(1) as n_satisfied"))
        .where("n_satisfied = n_comparisons")
        .groupBy(_PUBLICATION)
        .agg(F.expr("array_sort(collect_list(subscription_id)) as matches"))
    )

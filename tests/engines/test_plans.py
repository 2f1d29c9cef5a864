"""What the classic engine executes in a round: no exchange, and no plan that grows with the rounds."""

from __future__ import annotations

from support.engines import OnSpark


def test_no_exchange_in_a_round(on_spark: OnSpark) -> None:
    """Runs are partitioned by run_id: joins and windows stay within a partition (rounds of all kinds, joins too)."""
    assert len(on_spark.plans) > 30
    for place, frames in enumerate(on_spark.plans):
        exchanges = {name: text for name, text in frames.items() if "Exchange" in text}
        assert not exchanges, f"round {place}: {next(iter(exchanges.values()))}"


def test_plans_do_not_grow(on_spark: OnSpark) -> None:
    """A late round is planned like an early one: same kinds of messages, same text length up to the digits of ids."""
    early, late = on_spark.plans[24], on_spark.plans[32]
    assert early.keys() == late.keys()
    for name, text in late.items():
        assert text.count("\n") == early[name].count("\n")

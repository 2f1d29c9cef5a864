"""Workload bank and the replay of its operations, without an engine."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from pipelines.contract.run_inputs import Overlay
from pipelines.inputs.workload.build import build_workload
from pipelines.scenario.times import TimeSpec
from pipelines.scenario.workload import WorkloadSpec
from udfs.ginger.bank import Accounts, replay

GUARANTEE = {"getBalance": "eventual", "deposit": "causal"}


def operations(**settings: object) -> list[dict[str, object]]:
    ends = np.array([0, 0, 1], dtype=np.int64), np.array([1, 2, 3], dtype=np.int64)
    overlay = Overlay(("A", "B", "X", "Y"), *ends, np.ones(3, dtype=np.int64), 2)
    spec = {"publications": {"generate": {"kind": "bank", "round": 10, **settings}}}
    built = build_workload(
        WorkloadSpec.model_validate(spec), overlay=overlay, seed=3, time=TimeSpec(rounds=10**6), beside=None
    )
    return [row | {"content": json.loads(row["content"])} for row in built.publication.to_pylist()]


def test_operations_have_their_guarantee_and_their_accounts() -> None:
    rows = operations(operations=500, interval=3, accounts=4)
    assert len(rows) == 1000
    for row in rows:
        content = row["content"]
        assert row["guarantee"] == GUARANTEE.get(content["operation"], "total")
        assert row["keys"] == [content[name] for name in ("account", "to") if name in content]
        assert len(set(row["keys"])) == len(row["keys"]) == (2 if content["operation"] == "transfer" else 1)
        assert ("amount" in content) == (content["operation"] in ("deposit", "withdraw", "transfer"))
    found = Counter(row["content"]["operation"] for row in rows)
    expected = {"getBalance": 400, "deposit": 300, "withdraw": 100, "transfer": 100, "applyInterest": 100}
    assert all(abs(found[name] - count) < 50 for name, count in expected.items())


def test_with_a_single_account_there_is_nobody_to_transfer_to() -> None:
    rows = operations(operations=500, accounts=1)
    assert {tuple(row["keys"]) for row in rows} == {("account1",)}
    found = Counter(row["content"]["operation"] for row in rows)
    assert found.keys() == {"getBalance", "deposit", "withdraw", "applyInterest"}
    assert abs(found["withdraw"] - 200) < 50


def test_each_client_operates_at_its_interval() -> None:
    rows = operations(operations=20, interval=7)
    assert {row["node_id"] for row in rows} == {2, 3}
    for node in (2, 3):
        rounds = [row["round"] for row in rows if row["node_id"] == node]
        assert 10 <= rounds[0] < 17
        assert {later - earlier for earlier, later in pairwise(rounds)} == {7}


def test_shares_beyond_one_are_refused() -> None:
    with pytest.raises(ValueError, match="allowed: together at most 1"):
        operations(eventual=0.8, causal=0.3)


def test_interest_is_rounded_down_and_overdrafts_are_refused() -> None:
    accounts = Accounts(999)
    assert not accounts.apply({"operation": "applyInterest", "account": "a", "interest": 5})
    assert accounts.of("a") == 1003
    assert accounts.apply({"operation": "withdraw", "account": "a", "amount": 1004})
    assert accounts.apply({"operation": "transfer", "account": "a", "to": "b", "amount": 1004})
    assert not accounts.apply({"operation": "transfer", "account": "a", "to": "b", "amount": 1003})
    assert not accounts.apply({"operation": "getBalance", "account": "a"})
    assert (accounts.of("a"), accounts.of("b"), accounts.of("c")) == (0, 2002, 999)


def test_a_replay_tells_balances_after_total_order_operations_and_at_the_end() -> None:
    contents = [
        ("causal", {"operation": "deposit", "account": "a", "amount": 5}),
        ("total", {"operation": "transfer", "account": "a", "to": "b", "amount": 20}),
        ("total", {"operation": "transfer", "account": "a", "to": "b", "amount": 15}),
    ]
    delivered = [
        {
            "position": position,
            "source": 1,
            "source_seq": position,
            "guarantee": guarantee,
            "content": json.dumps(content),
        }
        for position, (guarantee, content) in enumerate(contents)
    ]
    replica = {"run_id": 0, "node_id": 9, "topic": "t", "start_balance": 10, "operations": delivered}
    (out,) = replay([pa.RecordBatch.from_pylist([replica])])
    assert [tuple(row.values())[4:] for row in out.to_pylist()] == [
        (1, "a", 15, True),
        (1, "b", 10, True),
        (2, "a", 0, False),
        (2, "b", 25, False),
        (None, "a", 0, None),
        (None, "b", 25, None),
    ]

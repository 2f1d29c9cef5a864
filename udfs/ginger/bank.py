"""BankService: the accounts of each replica after its deliveries (section 5.2).

Whole cents; interest is rounded down; a withdrawal or a transfer that an account cannot pay is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from udfs.batches import as_batch, schema_of

BALANCES = (
    ("run_id", "bigint"), ("node_id", "bigint"), ("topic", "string"), ("source", "bigint"), ("source_seq", "bigint"),
    ("account", "string"), ("balance", "bigint"), ("is_refused", "boolean"),
)  # fmt: skip
"""Columns of the rows of `replay`, with their SQL types."""
_OUT = schema_of(BALANCES)


class Accounts:
    """The accounts of one replica; those not used yet hold the start balance."""

    def __init__(self, start: int) -> None:
        """Starts with nothing done.

        Args:
            start: Cents on every account.
        """
        self.start = start
        self.balance: dict[str, int] = {}

    def apply(self, operation: dict[str, Any]) -> bool:
        """Carries out an operation, the content of a publication; returns whether it was refused."""
        account, amount = operation["account"], operation.get("amount", 0)
        match operation["operation"]:
            case "deposit":
                self._add(account, amount)
            case "applyInterest":
                self._add(account, self.of(account) * operation["interest"] // 1000)
            case "withdraw" | "transfer" if self.of(account) < amount:
                return True
            case "withdraw":
                self._add(account, -amount)
            case "transfer":
                self._add(account, -amount)
                self._add(operation["to"], amount)
        return False

    def of(self, account: str) -> int:
        """Returns the balance of an account."""
        return self.balance.get(account, self.start)

    def _add(self, account: str, amount: int) -> None:
        self.balance[account] = self.of(account) + amount


def replay(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Replays each replica's deliveries.

    Args:
        batches: One row a replica and topic: ``run_id, node_id, topic, start_balance``, and ``operations``, structs
            ``position, source, source_seq, guarantee, content``, in the order of delivery.

    Yields:
        Rows of `BALANCES`: an account after each operation in total order on it, and, without source, at the end.
    """
    for batch in batches:
        rows: list[tuple[Any, ...]] = []
        for replica in batch.to_pylist():
            head = replica["run_id"], replica["node_id"], replica["topic"]
            rows += [(*head, *row) for row in _replica(replica["start_balance"], replica["operations"])]
        yield as_batch(rows, _OUT)


def _replica(start: int, operations: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    accounts = Accounts(start)
    for delivered in operations:
        operation = json.loads(delivered["content"])
        is_refused = accounts.apply(operation)
        if delivered["guarantee"] == "total":
            for account in filter(None, (operation["account"], operation.get("to"))):
                yield delivered["source"], delivered["source_seq"], account, accounts.of(account), is_refused
    for account, balance in sorted(accounts.balance.items()):
        yield None, None, account, balance, None

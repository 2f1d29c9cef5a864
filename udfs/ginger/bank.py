"""BankService: the balances of each replica's accounts, computed from its deliveries (section 5.2).

A replica is a client that delivers the operations of a topic. Amounts are whole cents, and interest is rounded down. A
replica refuses a withdrawal or transfer that exceeds the balance of the account.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from udfs.batches import rows_of_runs

BALANCES = (
    ("run_id", "bigint"), ("node_id", "bigint"), ("topic", "string"), ("source", "bigint"), ("source_seq", "bigint"),
    ("account", "string"), ("balance", "bigint"), ("is_refused", "boolean"),
)  # fmt: skip
"""Columns of the rows of `replay`, with their SQL types."""


class Accounts:
    """The accounts of one replica. The balance of an account without operations is `start` cents."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.balance: dict[str, int] = {}

    def apply(self, operation: dict[str, Any]) -> bool:
        """Applies `operation`, the content of a publication. Returns whether the replica refuses the operation."""
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
        """Returns the balance of `account` in cents."""
        return self.balance.get(account, self.start)

    def _add(self, account: str, amount: int) -> None:
        self.balance[account] = self.of(account) + amount


@rows_of_runs(BALANCES)
def replay(replica: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Computes the balances of a replica from its deliveries.

    Args:
        replica: ``run_id, node_id, topic, start_balance``, and ``operations``, structs ``position, source, source_seq,
            guarantee, content``, in the order of delivery.

    Returns:
        Rows of `BALANCES`. A total-order operation has one row for each of its accounts, with the balance after the
        operation. Each account has one more row, with a null ``source`` and the balance after all operations.
    """
    accounts, head = Accounts(replica["start_balance"]), (replica["node_id"], replica["topic"])
    for delivered in replica["operations"]:
        operation = json.loads(delivered["content"])
        is_refused = accounts.apply(operation)
        if delivered["guarantee"] == "total":
            for account in filter(None, (operation["account"], operation.get("to"))):
                yield (*head, delivered["source"], delivered["source_seq"], account, accounts.of(account), is_refused)
    for account, balance in sorted(accounts.balance.items()):
        yield (*head, None, None, account, balance, None)

"""BankService: operations on accounts, each with the guarantee that it needs (Matos, Ginger, section 5.2).

getBalance is eventual; deposit causal, as deposits commute; withdraw, transfer and applyInterest are in total order,
for whether an account has the money, and what the interest is, depends on what came before.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.inputs import draws_numpy
from pipelines.inputs.overlay.nodes import Ints
from pipelines.inputs.workload.contents import attribute_rows, json_rows, publication_rows
from pipelines.scenario.workload import BankPublications

OPERATIONS = ("getBalance", "deposit", "withdraw", "transfer", "applyInterest")
_GUARANTEES = ("eventual", "causal", "total", "total", "total")
_WITHDRAW, _TRANSFER = OPERATIONS.index("withdraw"), OPERATIONS.index("transfer")
_PURPOSE = "workload.bank"


def bank_operations(spec: BankPublications, nodes: Ints, seed: int) -> tuple[pa.Table, pa.Table]:
    """Returns the publication and the attribute table of a bank, in order of (round, node as chosen).

    Args:
        spec: How many operations, and in which shares.
        nodes: Ids of the nodes that operate.
        seed: The run's seed.
    """
    node = np.tile(nodes, spec.operations)
    index = np.repeat(np.arange(spec.operations, dtype=np.int64), len(nodes))
    start = draws_numpy.integers(seed, f"{_PURPOSE}.start", 0, spec.interval - 1, node)
    round_ = spec.round + index * spec.interval + start
    order = np.lexsort((np.arange(len(node)), round_))
    node, index, round_ = node[order], index[order], round_[order]
    operation = _drawn_operations(spec, seed, node, index)
    account = draws_numpy.integers(seed, f"{_PURPOSE}.account", 1, spec.accounts, node, index)
    step = draws_numpy.integers(seed, f"{_PURPOSE}.to", 1, max(1, spec.accounts - 1), node, index)
    columns = _contents(spec, operation, account, (account - 1 + step) % spec.accounts + 1, seed, node, index)
    topic = pa.repeat(pa.scalar(spec.topic, pa.string()), len(node))
    guarantee = pa.array(_GUARANTEES).take(pa.array(operation))
    keys = [[name] if to is None else [name, to] for name, to in zip(*_names(columns), strict=True)]
    publication = publication_rows(
        node, round_, topic, json_rows(columns, len(node)), guarantee, pa.array(keys, pa.list_(pa.string()))
    )
    return publication, attribute_rows(topic, columns)


def _drawn_operations(spec: BankPublications, seed: int, node: Ints, index: Ints) -> Ints:
    """Returns the place of each operation in `OPERATIONS`."""
    total = (1.0 - spec.eventual - spec.causal) / 3.0
    ends = np.cumsum([spec.eventual, spec.causal, total, total])
    drawn = draws_numpy.uniform(seed, f"{_PURPOSE}.operation", node, index)
    place = np.searchsorted(ends, drawn, side="right").astype(np.int64)
    return np.where(place == _TRANSFER, _WITHDRAW, place) if spec.accounts == 1 else place


def _contents(
    spec: BankPublications, operation: Ints, account: Ints, to: Ints, seed: int, node: Ints, index: Ints
) -> dict[str, pa.Array]:
    amount = draws_numpy.integers(seed, f"{_PURPOSE}.amount", 1, spec.most, node, index)
    is_moved = np.isin(operation, [1, _WITHDRAW, _TRANSFER])
    return {
        "operation": pa.array(OPERATIONS).take(pa.array(operation)),
        "account": _account(account),
        "to": pc.if_else(pa.array(operation == _TRANSFER), _account(to), pa.scalar(None, pa.string())),
        "amount": pa.array(amount, mask=~is_moved),
        "interest": pa.array(np.full(len(node), spec.interest, dtype=np.int64), mask=operation != 4),
    }


def _account(number: Ints) -> pa.Array:
    return pc.binary_join_element_wise("account", pc.cast(pa.array(number), pa.string()), "")


def _names(columns: dict[str, pa.Array]) -> tuple[list[str], list[str | None]]:
    return columns["account"].to_pylist(), columns["to"].to_pylist()

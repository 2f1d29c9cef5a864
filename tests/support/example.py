"""A valid scenario file."""

from __future__ import annotations

EXAMPLE = """\
name: figure5
protocol:
  name: delta
  delta: 1
overlay:
  links: [[P1, N1], [N1, N2, 3], [N2, S1], [N2, S4]]
workload:
  subscriptions:
    - {at: S1, round: 1, topic: news}
    - {at: S4, round: 1, where: "price > 10 and symbol prefix A", until: 60}
  publications:
    - {at: P1, round: 10, topic: news, content: {price: 12.5, symbol: AAPL}}
time: {rounds: 200, round_ms: 10}
runs: {seeds: [0, 1, 2], grid: {protocol.delta: [0, 1, 2]}}
engine: spark
"""

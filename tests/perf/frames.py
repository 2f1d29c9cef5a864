"""Measures the frame rate of the replay of a large report: python tests/perf/frames.py [NODES...]."""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from support.browser import browser, opened

import pipelines as rt

SECONDS = 5
GAPS = """seconds => new Promise((done) => {
  document.getElementById("play").click();
  const gaps = [];
  let last = performance.now();
  const start = last;
  const tick = () => {
    const now = performance.now();
    gaps.push(now - last);
    last = now;
    if (now - start > seconds * 1000) done(gaps);
    else requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
})"""


def scenario(n_nodes: int) -> dict[str, object]:
    """Returns a scenario on a tree of ``n_nodes`` nodes, with a crash and some hundreds of messages in flight."""
    return {
        "name": f"frames{n_nodes}",
        "protocol": {"name": "forwarding"},
        "overlay": {"generate": {"kind": "random_tree", "nodes": n_nodes, "max_degree": 4, "prefix": "N"}},
        "workload": {
            "subscriptions": {"generate": {"kind": "topics", "topics": 3, "nodes": 100, "rounds": [0, 10]}},
            "publications": {"generate": {"kind": "topics", "topics": 3, "nodes": 40, "rounds": [60, 90], "rate": 0.1}},
        },
        "faults": [{"kind": "crash", "node": "N3", "round": 66, "until": 90}],
        "time": {"rounds": 400},
    }


def main(counts: list[int]) -> None:
    """Prints, for each number of nodes, the frame rates that the median and the mean gap between frames imply."""
    for n_nodes in counts:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "report.html"
            with rt.run(scenario(n_nodes), store=Path(folder) / "store", engine="local") as result:
                result.report(out=file)
            with browser() as started, opened(started, file, 1400) as found:
                found.show("replay/run=0&round=66")
                found.page.wait_for_timeout(500)
                gaps = found.page.evaluate(GAPS, SECONDS)
                drawn = found.page.locator("#overlay .message").count()
        median, mean = (1000 / of(gaps) for of in (statistics.median, statistics.fmean))
        print(f"{n_nodes} nodes, {drawn} messages drawn: {median:.0f} frames/s (median), {mean:.0f} (mean)")


if __name__ == "__main__":
    main([int(one) for one in sys.argv[1:]] or [200, 2000])

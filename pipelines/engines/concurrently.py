"""Jobs beside one another: an engine plans each in one thread, and waits between its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_N_THREADS = 6
_Answer = TypeVar("_Answer")


def concurrently(jobs: Iterable[Callable[[], _Answer]], n_threads: int = _N_THREADS) -> list[_Answer]:
    """Runs jobs at the same time; returns their answers in the order of the jobs.

    If one fails, or the program is interrupted, what has begun comes to its end, and what waits is left out.

    Args:
        jobs: What to do.
        n_threads: How many go at the same time.
    """
    pool = ThreadPoolExecutor(n_threads)
    try:
        return [job.result() for job in [pool.submit(job) for job in jobs]]
    finally:
        pool.shutdown(cancel_futures=True)

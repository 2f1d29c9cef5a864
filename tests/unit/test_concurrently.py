"""Jobs beside one another."""

from __future__ import annotations

import time
from functools import partial
from threading import Barrier, Event

import pytest

from pipelines.engines.session import concurrently


def test_answers_come_in_the_order_of_the_jobs() -> None:
    """Though the first job waits for the last one."""
    done = Event()
    assert concurrently([done.wait, lambda: False, lambda: done.set() is None]) == [True, False, True]


def test_one_thread_takes_one_job_after_the_other() -> None:
    running: list[int] = []

    def job(number: int) -> int:
        running.append(number)
        time.sleep(0.001)
        assert running == [number]
        return running.pop()

    assert concurrently((partial(job, number) for number in range(20)), 1) == list(range(20))


def test_a_failure_comes_through_and_what_waits_is_left_out() -> None:
    """What runs at that time comes to its end."""
    both, ended = Barrier(2), list[str]()

    def fail() -> None:
        both.wait()
        raise ValueError("no room")

    def end(name: str) -> None:
        time.sleep(0.05)
        ended.append(name)

    def last() -> None:
        both.wait()
        end("begun")

    with pytest.raises(ValueError, match="no room"):
        concurrently([fail, last, *(partial(end, "waiting") for _ in range(100))], 2)
    assert "begun" in ended
    assert len(ended) < 100

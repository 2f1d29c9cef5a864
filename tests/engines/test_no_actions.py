"""A protocol's steps only describe a round: nothing runs on the engine but what goes through ``Round.keep``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest
from pyspark.sql.connect.client import SparkConnectClient

from pipelines.contract.round import Round, RoundResult
from pipelines.engines.checkpoints import DriverCheckpoints
from pipelines.engines.session import Session
from pipelines.protocols import PROTOCOLS, protocol_form
from pipelines.testing import rows, run_all, run_configs, scenario

SMALL = {
    "overlay": {"links": [["A", "B"], ["B", "C"]]},
    "workload": {
        "subscriptions": [{"at": "C", "round": 0, "topic": "t"}],
        "publications": [{"at": "A", "round": 8, "topic": "t"}],
    },
    "time": {"rounds": 60},
}
WITH_CLIENTS = {
    "overlay": {"links": [["A", "B"], ["B", "C"]], "clients": [{"name": "a", "at": "A"}, {"name": "c", "at": "C"}]},
    "workload": {
        "subscriptions": [{"at": "a", "topic": "t"}, {"at": "c", "topic": "t"}],
        "publications": [{"at": "a", "round": 8, "topic": "t", "guarantee": "causal"}],
    },
    "time": {"rounds": 60},
}
"""For protocol ginger, whose brokers publish nothing themselves."""
WITH_SERVERS = {**WITH_CLIENTS, "overlay": {**WITH_CLIENTS["overlay"], "servers": [{"name": "r", "at": "B"}]}}
"""For protocol repository, which stores messages at servers."""
WITHOUT_LINKS = {
    "overlay": {"nodes": {"count": 3}},
    "workload": {
        "subscriptions": [{"at": name, "topic": "t"} for name in ("N1", "N2", "N3")],
        "publications": [{"at": "N1", "round": 40, "topic": "t"}],
    },
    "time": {"rounds": 60},
}
"""For protocols that make their overlay."""
OVERLAYS = {"ginger": WITH_CLIENTS, "repository": WITH_SERVERS, "skipring": WITHOUT_LINKS}
"""Name of a protocol -> the parts of its scenario, where they are not `SMALL`."""
_EXECUTIONS = ("_execute", "_execute_and_fetch_as_iterator")


class Watch:
    """Counts what the engine executes while a protocol describes a round, and the rounds.

    Relations that are kept are written by other threads meanwhile.
    """

    def __init__(self) -> None:
        self.is_describing = False
        self.describer = get_ident()
        self.n_rounds = 0
        self.actions: list[str] = []

    @contextmanager
    def describing(self, value: bool) -> Iterator[None]:
        before, self.is_describing = self.is_describing, value
        try:
            yield
        finally:
            self.is_describing = before


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Watches the client of Spark Connect, through which everything goes."""
    seen = Watch()
    for name in _EXECUTIONS:
        monkeypatch.setattr(SparkConnectClient, name, watched(seen, getattr(SparkConnectClient, name)))
    cache = DriverCheckpoints.__call__

    def allowed(self: DriverCheckpoints, *arguments: Any) -> Any:
        with seen.describing(False):
            return cache(self, *arguments)

    monkeypatch.setattr(DriverCheckpoints, "__call__", allowed)
    return seen


def watched(seen: Watch, execute: Callable[..., Any]) -> Callable[..., Any]:
    def counted(self: SparkConnectClient, request: Any, *arguments: Any, **named: Any) -> Any:
        if seen.is_describing and get_ident() == seen.describer:
            seen.actions.append(str(request)[:500])
        return execute(self, request, *arguments, **named)

    return counted


def watch_rounds(
    seen: Watch, patch: pytest.MonkeyPatch, name: str, then: Callable[[Round], None] = lambda _: None
) -> None:
    """Lets the watch know when a protocol describes a round, and does one more thing in it."""
    protocol = protocol_form(name, "dataflow")
    describe = protocol.round

    def round_(given: Round) -> RoundResult:
        seen.n_rounds += 1
        with seen.describing(True):
            then(given)
            return describe(given)

    patch.setattr(type(protocol), "round", lambda _, given: round_(given))


@pytest.mark.parametrize("name", [name for name, spec in PROTOCOLS.items() if "dataflow" in spec.forms])
def test_a_round_is_only_described(
    sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watch: Watch, name: str
) -> None:
    watch_rounds(watch, monkeypatch, name)
    runs = run_configs([scenario(**{**OVERLAYS.get(name, SMALL), "protocol": {"name": name}})])
    store = run_all(runs, sail, tmp_path, form="dataflow")
    assert watch.n_rounds >= 3
    assert watch.actions == []
    assert rows(store, "message")


def test_an_action_in_a_step_is_found(
    sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watch: Watch
) -> None:
    watch_rounds(watch, monkeypatch, "forwarding", lambda given: given.inbox.count() and None)
    run_all(run_configs([scenario(**{**SMALL, "protocol": {"name": "forwarding"}})]), sail, tmp_path, form="dataflow")
    assert len(watch.actions) == watch.n_rounds > 3

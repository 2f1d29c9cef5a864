"""When a protocol is checked against the contract, what its declaration needs, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Literal
from unittest.mock import Mock

import pytest

from pipelines import protocols
from pipelines.audits.run import beyond_runs
from pipelines.contract import check
from pipelines.contract.audit import Audit, sql_audits, sql_files
from pipelines.contract.round import DataflowForm
from pipelines.contract.settings import Strict
from pipelines.errors import ProtocolError, QueryError, ScenarioError
from pipelines.protocols import BROKEN, PROTOCOLS, protocol_form
from pipelines.scenario.load import find_scenario, read_scenario, shipped
from udfs.forwarding import Forwarding
from udfs.nodes.context import Context

FORWARDING = PROTOCOLS["forwarding"]
WITHOUT_PYSPARK = """
import sys

sys.modules["pyspark"] = sys.modules["py4j"] = None  # an import raises ImportError
from pipelines.protocols import BROKEN, PROTOCOLS
for name, one in PROTOCOLS.items():
    assert one.kinds and one.program.declared and one.settings().name == name, name
print(",".join(PROTOCOLS), BROKEN)
"""


def test_every_protocol_is_declared_without_pyspark() -> None:
    """Programs, audits, bounds and views included."""
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", WITHOUT_PYSPARK], cwd=root, capture_output=True, text=True, check=False)
    names = "delta,forwarding,epidemic,ginger,skipring,repository,flooding,gossipsub"
    assert (run.stdout.strip(), run.returncode) == (f"{names} {{}}", 0), run.stderr


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_protocols_of_this_package_keep_the_contract(name: str) -> None:
    """`protocol_form` checks those of other packages only."""
    for form in PROTOCOLS[name].forms:
        check.check_protocol(PROTOCOLS[name], protocol_form(name, form))


def test_a_form_of_another_package_is_checked_once_though_every_question_loads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: Counter[str] = Counter()
    monkeypatch.setattr(check, "_statements", lambda _: asked.update(["statements"]) or ())
    assert isinstance(protocol_form("forwarding", "dataflow"), DataflowForm)
    assert not asked
    monkeypatch.setitem(PROTOCOLS, "forwarding", replace(FORWARDING, summary="another one"))
    first = protocol_form("forwarding", "dataflow")
    assert protocol_form("forwarding", "dataflow") is first
    assert asked == {"statements": 1}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"bound": "select from where"}, "bound is no SQL"),
        ({"waits": {"routing_entry": "select from where"}}, "waits of 'routing_entry' is no SQL"),
        ({"steps": "nowhere"}, "its module nowhere cannot be imported"),
        ({"steps": "udfs.forwarding"}, "STEPS is a NoneType; allowed: an object of a subclass of DataflowForm"),
        ({"steps": None}, "it has no form dataflow; it has program"),
    ],
)
def test_a_declaration_that_replaces_another_is_checked_again(
    changes: dict[str, object], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol_form("forwarding", "dataflow")
    monkeypatch.setitem(PROTOCOLS, "forwarding", replace(FORWARDING, **changes))
    with pytest.raises(ProtocolError, match=told):
        protocol_form("forwarding", "dataflow")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"application": ("PUP",)}, "'PUP' is none of its kinds"),
        ({"recovery": ("PUB",)}, "a kind occurs in two of them"),
        ({"name": "my-flood", "settings": Strict}, "its name is 'my-flood', and names of tables contain it; allowed"),
        ({"assumes": {"no_los"}}, "assumes has 'no_los'; allowed: no_loss, no_duplicates, order"),
    ],
)
def test_a_declaration_with_a_wrong_value_is_refused(changes: dict[str, object], told: str) -> None:
    with pytest.raises(ProtocolError, match=told):
        replace(FORWARDING, **changes)


class Unnamed(Strict):
    """Settings without the name of the protocol."""


class Named(Strict):
    """Settings with the name of another protocol."""

    name: Literal["flood"]


@pytest.mark.parametrize("settings", [Unnamed, Named])
def test_settings_have_the_name_of_their_protocol(settings: type[Strict]) -> None:
    with pytest.raises(ProtocolError, match=rf"its {settings.__name__} has no field name: Literal\['forwarding'\]"):
        replace(FORWARDING, settings=settings)


def test_settings_have_the_delay_of_the_failure_detector() -> None:
    class Watching(Forwarding):
        def on_down(self, peer: int, ctx: Context) -> None: ...

    with pytest.raises(ProtocolError, match=r"a handler on_down, and its .* has no field detection_rounds; add e\.g\."):
        replace(FORWARDING, program=Watching)


def test_a_protocol_that_its_package_fails_to_provide_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BROKEN, "flood", "package flooding: flooding:FLOOD cannot be loaded (ImportError: no x)")
    text = "name: s\nprotocol: {name: flood}\noverlay: {links: [[A, B]]}\n"
    with pytest.raises(
        ScenarioError, match=r"^s\.yaml:2:18: protocol 'flood' is not available: .*no x\); correct"
    ) as told:
        read_scenario(Path("s.yaml"), text)
    assert len(str(told.value).splitlines()) == 1
    with pytest.raises(ScenarioError, match=r"` lists the names; protocol 'flood' is not available: .*no x\)$"):
        find_scenario(Path("ring"))


@pytest.mark.parametrize("field", ["scenarios", "views"])
def test_a_protocol_without_its_folder_hides_no_scenario(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = replace(FORWARDING, name="flood", settings=Strict, **{field: "pipelines.scenaros"})
    entry = EntryPoint("flood", "flooding:FLOOD", protocols.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda _: protocol)
    monkeypatch.setattr("pipelines.protocols.BROKEN", {})
    protocols._take(entry)
    assert "No module named 'pipelines.scenaros'" in protocols.BROKEN["flood"]
    assert "flood" not in PROTOCOLS
    assert "quickstart" in shipped()


def test_an_error_in_the_sql_of_a_bound_names_the_bound() -> None:
    reader = Mock(sql=Mock(side_effect=QueryError("table 'fault_evnt' does not exist")))
    with pytest.raises(QueryError, match=r"^the bound of protocol forwarding cannot be evaluated: table 'fault_evnt'"):
        beyond_runs(reader, FORWARDING)


def test_an_audit_has_no_name_of_a_general_audit() -> None:
    protocol = replace(FORWARDING, audits=[Audit("exactly_once", "nothing", "select 1")])
    with pytest.raises(ProtocolError, match="audit 'exactly_once' has the name of a general audit or relation"):
        check.check_protocol(protocol, protocol_form("forwarding", "program"))


def test_a_view_has_no_name_of_a_view_in_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS, "forwarding", replace(FORWARDING, views="other.views"))
    found = {"other.views": {"missing_delivery": "select 1", "own": "select 2"}}
    monkeypatch.setattr(check, "sql_files", lambda package: found.get(package) or sql_files(package))
    told = "view 'missing_delivery' has the name of a view in pipelines.sql; allowed: another name"
    with pytest.raises(ProtocolError, match=told) as raised:
        protocol_form("forwarding", "program")
    assert "'own'" not in str(raised.value)


def test_a_package_that_takes_the_name_of_another_protocol_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BROKEN, "flooding", "package other: a protocol called flooding already exists")
    text = "name: s\nprotocol: {name: flooding}\noverlay: {links: [[A, B]]}\n"
    assert read_scenario(Path("s.yaml"), text).scenario.protocol.name == "flooding"


FLAGS = {
    "delta": {
        "": "answered_peers answers_in_turn ends_in_time guided_again incarnations join_consistency last_words level_1"
        " level_2 no_operational_skipped nothing_pending order_of_resends own_messages own_number recovered_state"
        " status_first tells_peers",
    },
    "epidemic": {
        "is_unconditional": "answered_leave answers_requests asks_for_gaps asks_for_own bounded_cache counters"
        " crash_empties_cache delivered_once discards_oldest draws_apart fanout gives_up gossip_on_time"
        " gossips_over_links newest_route one_label own_events_last pulls_reach_subscribers replies_requested"
        " requests_missing tables_follow_links tables_return tree_copies_pass",
    },
    "ginger": {
        "": "balances causal_order nobody_alone nothing_lost nothing_waiting one_tree total_order",
        "is_unconditional": "subscribed",
        "is_dated": "absent_silent answers_votes asks_ancestors_first elects_highest holds_messages newcomer_answers"
        " reports_present sends_view shows_electors",
    },
    "flooding": {"is_unconditional": "bounded_hops floods_all_links forwards_copies", "": "reached_everybody"},
    "gossipsub": {
        "": "symmetric_mesh",
        "is_unconditional": "answers_from_cache asks_at_once asks_for_gossip backoff bounded_gossip bounded_mesh"
        " fills_mesh floods_own forgets_crashed gossips_widely grafts_when_joining heartbeats keeps_fanout known_peers"
        " never_back no_mesh_outside prunes_when_leaving pushes_once pushes_over_mesh pushes_to_mesh"
        " refuses_in_backoff refuses_when_full replies_when_asked varies_gossip",
    },
    "repository": {
        "": "asked_to_steer cuts_in_time kept_until_stable leave_ends nothing_pending stored_once"
        " subscription_confirmed",
        "is_of_deliveries": "authorised_only publisher_order repository_order starts_at_cut",
        "is_dated": "acknowledges_announced all_or_none asks_for_missing leaves_covered offers_when_operational"
        " recovers_missing recovery_ends rectifies_unacknowledged registrations_spread removal_told"
        " repeats_broker_up sends_to_matching stored_delivered sync_passes_nothing tells_stored",
    },
    "skipring": {
        "": "closure convergence database degrees departed flooding labels published_everywhere tries",
        "is_unconditional": "acts_at_timeouts adopts_configuration answers_requests asks_when_silent bounded_delays"
        " draws_independently drops_invalid_labels known_references one_supervisor orders_neighbours rejects_strangers"
        " repairs_database requests_nearer tells_database",
    },
}


@pytest.mark.parametrize("protocol", FLAGS)
def test_audits_in_sql_files_keep_their_names_and_flags(protocol: str) -> None:
    found: dict[str, list[str]] = {}
    for audit in PROTOCOLS[protocol].audits:
        flags = ("is_unconditional", "is_of_deliveries", "is_dated")
        found.setdefault(" ".join(flag for flag in flags if getattr(audit, flag)), []).append(audit.name)
    assert {flag: " ".join(sorted(names)) for flag, names in found.items()} == FLAGS[protocol]


def test_an_audit_is_read_from_a_sql_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "audits_of_test"
    package.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    sql = "-- audit, is_dated, is_unconditional: nothing happens\nselect 1"
    (package / "nothing.sql").write_text(sql, "utf-8")
    (package / "relation.sql").write_text("-- rows that audits read\nselect 1", "utf-8")
    expected = Audit("nothing", "nothing happens", sql, is_unconditional=True, is_dated=True)
    assert sql_audits("audits_of_test") == (expected,)
    for first in ("-- audit, is_late: nothing", "-- audit nothing", "-- audit is_dated: nothing"):
        (package / "nothing.sql").write_text(f"{first}\nselect 1", "utf-8")
        with pytest.raises(ValueError, match=r"nothing\.sql starts with .*allowed: -- audit: summary"):
            sql_audits("audits_of_test")

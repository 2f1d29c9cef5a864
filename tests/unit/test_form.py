"""Which form plays the runs of a protocol, and what run and plan say of it."""

from __future__ import annotations

import pytest

from pipelines.contract.forms import MOST_NODES, AskedForm, Form
from pipelines.errors import FormError
from pipelines.experiment.jobs import by_protocol, forms_of

_ABOVE = (
    "20,001 nodes per run exceed 20,000; program is faster, but a run needs 400 MB of Python memory in one executor"
)


@pytest.mark.parametrize(
    ("protocol", "asked", "n_nodes", "has_faults", "form", "reason"),
    [
        ("delta", "auto", 30, True, "program", "30 nodes per run do not exceed 20,000"),
        ("delta", "auto", MOST_NODES + 1, True, "dataflow", _ABOVE),
        ("delta", "dataflow", 30, True, "dataflow", "as asked for"),
        ("ginger", "auto", MOST_NODES + 1, False, "dataflow", _ABOVE),
        ("ginger", "auto", MOST_NODES + 1, True, "program", "the only form for these runs"),
        ("skipring", "auto", 30, False, "program", "the only form for these runs"),
    ],
)
def test_a_form_is_chosen_by_size_faults_and_wish(
    protocol: str, asked: AskedForm, n_nodes: int, has_faults: bool, form: Form, reason: str
) -> None:
    found = forms_of([protocol], asked, n_nodes, ["crashes"] * has_faults)
    assert found == {protocol: (form, reason)}


def test_a_form_that_a_protocol_lacks_is_refused() -> None:
    with pytest.raises(FormError, match="skipring has no form dataflow"):
        forms_of(["delta", "skipring"], "dataflow", 30, [])


def test_protocols_with_equal_forms_share_a_line() -> None:
    forms = forms_of(["delta", "epidemic", "forwarding"], "auto", 30, ["crashes"])
    told = {name: f"{form}, {reason}" for name, (form, reason) in forms.items()}
    assert list(by_protocol(told)) == [
        "delta, forwarding: program, 30 nodes per run do not exceed 20,000",
        "epidemic: program, the only form for these runs",
    ]
    assert list(by_protocol({"delta": "program, as asked for"})) == ["program, as asked for"]
    assert list(by_protocol({"delta": "program, as asked for"}, is_named=True)) == ["delta: program, as asked for"]

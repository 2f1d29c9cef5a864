"""When a protocol is checked against the contract: once, and again when its module has another one."""

from __future__ import annotations

from collections import Counter

import pytest

from pipelines.contract import check
from pipelines.errors import ProtocolError
from pipelines.protocols import forwarding, protocol_module
from pipelines.protocols.forwarding import program as module


def test_a_protocol_is_checked_once_though_every_question_loads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()
    first = protocol_module(forwarding.SPEC.name)
    monkeypatch.setattr(check, "_texts", lambda _: asked.update(["texts"]) or ())
    assert protocol_module(forwarding.SPEC.name) is first is module.PROTOCOL
    assert not asked


def test_another_protocol_in_the_module_is_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol_module(forwarding.SPEC.name)
    monkeypatch.setattr(module, "PROTOCOL", object())
    with pytest.raises(ProtocolError, match="PROTOCOL is a object"):
        protocol_module(forwarding.SPEC.name)

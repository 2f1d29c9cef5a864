"""The settings: what the program reads, and which values fit together."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from support.skipring import SETTINGS

from pipelines.protocols.skipring import SkipRingSettings
from udfs.skipring.start import ARBITRARY, CORRUPTIONS, EMPTY


def test_the_program_reads_these_settings() -> None:
    assert {*SETTINGS} == {*SkipRingSettings.model_fields} - {"name"}
    assert SkipRingSettings(**SETTINGS).model_dump(exclude={"name"}) == SETTINGS


@pytest.mark.parametrize("start", [EMPTY, "legitimate", ARBITRARY, *CORRUPTIONS])
def test_starts(start: Any) -> None:
    assert SkipRingSettings(start=start).start == start


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"min_delay": 9, "max_delay": 8}, "min_delay 9 is above max_delay 8"),
        ({"max_delay": 80, "timeout_interval": 10}, "allowed: more than 8"),
        ({"hash_bits": 63}, "multiple of 4"),
        ({"start": "anything"}, "legitimate"),
    ],
)
def test_what_does_not_fit(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SkipRingSettings(**given)

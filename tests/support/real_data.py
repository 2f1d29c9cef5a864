"""Real data that lie beside the project."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"


def shared_data(*parts: str) -> Path:
    """Returns the place of real data that lie beside the project; skips the test where they are absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"the real data {'/'.join(parts)} are not beside the project")
    return path


def shared_case(*parts: str) -> Path:
    """Returns the place of a small input that failed once; skips the test where it is absent."""
    path = SHARED.parent.joinpath("cases", *parts)
    if not path.exists():
        pytest.skip(f"the case {'/'.join(parts)} is not beside the project")
    return path

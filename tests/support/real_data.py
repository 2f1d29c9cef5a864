"""Finds real data in the folder beside the project."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"


def shared_data(*parts: str) -> Path:
    """Returns the path of real data beside the project; skips the test if the data do not exist."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"the real data {'/'.join(parts)} are not beside the project")
    return path


def shared_case(*parts: str) -> Path:
    """Returns the path of a small input that once caused an error; skips the test if the input does not exist."""
    path = SHARED.parent.joinpath("cases", *parts)
    if not path.exists():
        pytest.skip(f"the case {'/'.join(parts)} is not beside the project")
    return path

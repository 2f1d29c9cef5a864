"""Leases survive lost answers of the server, and runs that start in one second get folders of their own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from pipelines.errors import StoreError
from pipelines.store import folder
from pipelines.store.bucket import Bucket
from pipelines.store.folder import leased, new_store
from pipelines.store.place import Tag


class Lossy(Bucket):
    """A lock file whose server applies each write, and whose client repeats the write because no answer arrives."""

    def create(self, text: str) -> Tag | None:
        """Creates the file twice."""
        super().create(text)
        return super().create(text)

    def update(self, text: str, tag: Tag) -> Tag | None:
        """Writes the file twice."""
        super().update(text, tag)
        return super().update(text, tag)


class Silent(Bucket):
    """A lock file whose server applies each write, and whose client gives up."""

    def update(self, text: str, tag: Tag) -> Tag | None:
        """Writes the file, and fails."""
        super().update(text, tag)
        raise StoreError("no answer")


def test_an_answer_that_is_lost_costs_no_lease() -> None:
    file, said = Lossy("s3://bucket/s/.lock", MemoryStore(), "s/.lock"), list[str]()
    with leased(file, "me", said.append) as lease:
        lease.renew()
        lease.renew()
        assert file.read_text().startswith("me\n")
    assert said == []
    assert file.head() is None


def test_a_request_that_fails_costs_no_lease() -> None:
    store = MemoryStore()
    file = Bucket("s3://bucket/s/.lock", store, "s/.lock")
    with leased(file, "me", lambda _: None) as lease:
        lease._file = Silent("s3://bucket/s/.lock", store, "s/.lock")
        with pytest.raises(StoreError, match="no answer"):
            lease.renew()
        lease._file = file
        lease.renew()


def test_a_lease_that_another_program_has_acquired_is_lost() -> None:
    file = Lossy("s3://bucket/s/.lock", MemoryStore(), "s/.lock")
    with leased(file, "me", lambda _: None) as lease:
        file.write_bytes(b"other\ntoken 1\n")
        with pytest.raises(StoreError, match="another program has acquired the lease"):
            lease.renew()
    assert file.read_text() == "other\ntoken 1\n"


class Clock(datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: object = None) -> Clock:
        """Returns one time."""
        return cls(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_stores_of_one_second_have_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folder, "datetime", Clock)
    stores = [new_store(None, "s") for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        names = sorted(pool.map(lambda store: store.__enter__()[0].name, stores))
    assert names == ["20260102T030405Z", *(f"20260102T030405Z-{rank}" for rank in range(2, 9))]

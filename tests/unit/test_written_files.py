"""Files that users name are written whole or not at all; devices, pipes and links are written directly."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pipelines.store import roots
from pipelines.store.roots import opened_whole, write_whole


def test_a_file_that_fails_keeps_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.txt"
    write_whole(file, "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(roots.os, "fsync", full)
    for one in (file, tmp_path / "new.txt"):
        with pytest.raises(OSError, match="No space left"):
            write_whole(one, b"\x00new")
    with pytest.raises(UnicodeEncodeError), opened_whole(file) as out:
        out.write("\ud800")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a.txt", "old")]


def test_content_is_text_or_bytes(tmp_path: Path) -> None:
    write_whole(tmp_path / "a.txt", "δ\r\n")
    write_whole(tmp_path / "b.bin", b"\x89PNG\n")
    assert (tmp_path / "a.txt").read_bytes() == "δ\r\n".encode()
    assert (tmp_path / "b.bin").read_bytes() == b"\x89PNG\n"


def test_a_file_keeps_its_mode_and_its_neighbours(tmp_path: Path) -> None:
    file, beside = tmp_path / ("a" * 251 + ".txt"), tmp_path / "b.part"
    beside.write_text("mine")
    write_whole(file, "old")
    file.chmod(0o600)
    write_whole(file, "new")
    write_whole(tmp_path / "b", "new")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o600)
    assert beside.read_text() == "mine"


def test_a_link_keeps_its_target_if_the_content_fails(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "file").write_text("old")
    with pytest.raises(UnicodeEncodeError), opened_whole(tmp_path / "link") as out:
        out.write("\ud800")
    assert (tmp_path / "file").read_text() == "old"


def test_links_and_pipes_are_written_and_stay(tmp_path: Path) -> None:
    """As root a rename would replace ``/dev/null``."""
    (tmp_path / "file").write_text("a long old content")
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("file")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        for one in (link, pipe):
            roots.check_target(one)
            write_whole(one, "new")
        assert os.read(reader, 99) == b"new"
    finally:
        os.close(reader)
    assert link.is_symlink()
    assert pipe.is_fifo()
    assert (tmp_path / "file").read_text() == "new"

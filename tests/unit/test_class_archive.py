"""One JVM writes the class archive; later ones map it when the writer has ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from pipelines.engines.classic import ClassArchive


def archive(folder: Path, java: str = "17.0.1") -> ClassArchive:
    return ClassArchive.of(folder, [folder / "delta.jar"], java)


def test_jvms_that_start_together_write_it_once(tmp_path: Path) -> None:
    first, second = archive(tmp_path), archive(tmp_path)
    assert first.partial is not None
    assert first.option == f'"-XX:ArchiveClassesAtExit={first.partial}"'
    assert second.option == ""
    assert archive(tmp_path, "21.0.2").partial is not None, "another Java has an archive of its own"
    os.utime(first.partial, (0, time.time() - 3600))
    assert archive(tmp_path).partial is not None, "the first writer may run for hours"


def test_a_partial_file_of_a_killed_jvm_is_removed(tmp_path: Path) -> None:
    left = archive(tmp_path).file.with_suffix(".1.part")
    left.touch()
    for partial in tmp_path.glob("*.part"):
        os.utime(partial, (0, time.time() - 2 * 86400))
    assert archive(tmp_path).partial is not None
    assert not left.exists()


def test_later_jvms_map_it_after_the_end_of_the_writer(tmp_path: Path) -> None:
    written = archive(tmp_path)
    writer = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    written.keep_after(writer.pid)
    assert written.partial is not None
    written.partial.write_text("classes")
    assert archive(tmp_path).option == ""
    writer.communicate(b"\n")
    until = time.monotonic() + 60
    while not written.file.exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert written.file.read_text() == "classes"
    assert archive(tmp_path).option == f'"-XX:SharedArchiveFile={written.file}"'
    assert archive(tmp_path).partial is None


def test_a_folder_without_rights_has_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert archive(tmp_path / "file").option == ""

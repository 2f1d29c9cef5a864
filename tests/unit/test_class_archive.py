"""One JVM writes the class archive; later ones map it when the writer has ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from pipelines.engines.class_archive import ClassArchive


def archive(folder: Path, java: str = "17.0.1") -> ClassArchive:
    return ClassArchive.of(folder, [folder / "delta.jar"], java)


def test_one_jvm_at_a_time_writes_it(tmp_path: Path) -> None:
    first, second = archive(tmp_path), archive(tmp_path)
    assert first.option.startswith('"-XX:ArchiveClassesAtExit=')
    assert second.option == ""
    assert archive(tmp_path, "21.0.2").is_written, "another Java has an archive of its own"
    partial = first.file.with_suffix(".part")
    os.utime(partial, (0, time.time() - 3600))
    assert archive(tmp_path).is_written, "the writer of an old partial file was killed"


def test_later_jvms_map_it_after_the_end_of_the_writer(tmp_path: Path) -> None:
    written = archive(tmp_path)
    writer = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    written.keep_after(writer.pid)
    written.file.with_suffix(".part").write_text("classes")
    assert archive(tmp_path).option == ""
    writer.communicate(b"\n")
    until = time.monotonic() + 60
    while not written.file.exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert written.file.read_text() == "classes"
    assert archive(tmp_path).option == f'"-XX:SharedArchiveFile={written.file}"'
    assert not archive(tmp_path).is_written


def test_a_folder_without_rights_has_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert archive(tmp_path / "file").option == ""

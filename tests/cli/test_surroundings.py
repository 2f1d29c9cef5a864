"""What surrounds a command: the signals that it receives, and its working directory."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.commands import SMALL, cli

from pipelines.cli.signals import interruptions

HANGING = """
import ctypes
from pipelines import cli
from pipelines.cli import app, ends

def hang(*_):
    print('hanging', flush=True)
    mutex = ctypes.create_string_buffer(64)
    while True:
        ctypes.CDLL(None).pthread_mutex_lock(mutex)

ends._END_SECONDS, app.print_groups = 1, hang
cli.main()
"""


@pytest.mark.usefixtures("heeded_signals")
def test_a_program_under_nohup_outlives_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interruptions() == [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    monkeypatch.setattr(signal, "getsignal", {signal.SIGHUP: signal.SIG_IGN}.get)
    assert interruptions() == [signal.SIGINT, signal.SIGTERM]


def test_a_signal_ends_a_program_in_native_code_that_never_returns() -> None:
    """Python's handlers of signals run when native code returns: a deadlock of an engine would keep the program."""
    command = [sys.executable, "-c", HANGING, "list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert running.stderr is not None
            assert running.stdout.readline() == "hanging\n"
            time.sleep(0.2)
            running.send_signal(signal.SIGTERM)
            assert running.wait(60) == 143
            assert running.stderr.read() == "interrupted; the program has not ended within 1 s, so it is stopped\n"
        finally:
            running.kill()


def test_a_working_directory_that_was_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, gone = tmp_path / "s.yaml", tmp_path / "gone"
    file.write_text(SMALL + "engine: local\n")
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for command in (("run", file), ("run", file, "--store", "st"), ("init", "new.yaml")):
        result = cli(*command)
        assert result.exit_code == 64
        told = result.stderr.splitlines()[-1]
        assert told == "error: the working directory has been removed; change to an existing folder"

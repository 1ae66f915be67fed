"""A program that is asked to end cleans up, whichever signal asks."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import signal
from cathedra.cluster.process.signals import end_as_interrupted
end_as_interrupted()
try:
    print("ready", flush=True)
    signal.pause()
finally:
    print("cleaned up", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_its_clean_up(number: signal.Signals) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    program.send_signal(number)
    out, error = program.communicate(timeout=150)
    assert out == "cleaned up\n"
    assert error.endswith("KeyboardInterrupt\n")

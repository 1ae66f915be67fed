"""A program cleans up when any ending signal arrives."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from cathedra.cluster.process.signals import held_back, switch_soon

PROGRAM = """
import signal
from cathedra.cluster.process.signals import end_as_interrupted
signal.signal(signal.SIGINT, signal.{interruption})
end_as_interrupted()
try:
    print("ready", flush=True)
    signal.pause()
finally:
    print("cleaned up", flush=True)
"""


@pytest.mark.parametrize(
    ("number", "interruption"),
    [
        (signal.SIGINT, "default_int_handler"),
        (signal.SIGTERM, "default_int_handler"),
        (signal.SIGHUP, "default_int_handler"),
        (signal.SIGTERM, "SIG_IGN"),  # as a shell without job control starts programs in the background
    ],
)
def test_a_signal_ends_it_with_its_clean_up(number: signal.Signals, interruption: str) -> None:
    source = PROGRAM.format(interruption=interruption)
    program = subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    program.send_signal(number)
    out, error = program.communicate(timeout=150)
    assert out == "cleaned up\n"
    assert error.endswith("KeyboardInterrupt\n")


def test_a_signal_that_is_held_back_comes_when_the_block_has_ended() -> None:
    done = []

    def work() -> None:
        with held_back():
            signal.raise_signal(signal.SIGINT)
            done.append("the block")
        done.append("what follows")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["the block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_that_is_ignored_is_ignored_when_it_has_been_held_back() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with held_back():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


PYTHONS_OWN = 0.005


def test_a_thread_waits_no_longer_than_a_step_of_the_loop_takes() -> None:
    before = sys.getswitchinterval()
    try:
        sys.setswitchinterval(PYTHONS_OWN)
        switch_soon()
        assert sys.getswitchinterval() < PYTHONS_OWN / 2
    finally:
        sys.setswitchinterval(before)

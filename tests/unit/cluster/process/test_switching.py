"""Threads take turns sooner than Python lets them."""

from __future__ import annotations

import sys

from cathedra.cluster.process.switching import switch_soon

PYTHONS_OWN = 0.005


def test_a_thread_waits_no_longer_than_a_step_of_the_loop_takes() -> None:
    before = sys.getswitchinterval()
    try:
        sys.setswitchinterval(PYTHONS_OWN)
        switch_soon()
        assert sys.getswitchinterval() < PYTHONS_OWN / 2
    finally:
        sys.setswitchinterval(before)

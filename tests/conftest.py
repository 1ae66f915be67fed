"""What holds for every test."""

from __future__ import annotations

import signal

# Whoever runs the suite in the background of a shell without job control ignores interrupts, and so would all programs
# that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

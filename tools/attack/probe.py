"""Measure how long ``/livez`` takes on a new TLS connection each time: ``probe.py PORT``.

A process of its own, so that neither the attacking client nor the attacked cluster delays it. A line is printed for
each answer: when the request began (seconds of the monotonic clock), how long it took, and the status or an error.
"""

from __future__ import annotations

import http.client
import ssl
import sys
import time
from typing import Final

PAUSE_SECONDS: Final = 0.05
"""Between two requests."""
LONGEST_SECONDS: Final = 120.0


def ask(port: int, tls: ssl.SSLContext) -> str:
    """Request ``/livez`` once, and return the status or the error."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=tls, timeout=LONGEST_SECONDS)
    try:
        connection.request("GET", "/livez")
        answer = connection.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__
    finally:
        connection.close()
    return str(answer.status)


def main(port: int) -> None:
    """Measure until standard output is closed."""
    tls = ssl._create_unverified_context()
    while True:
        began = time.monotonic()
        outcome = ask(port, tls)
        print(f"{began:.6f} {time.monotonic() - began:.6f} {outcome}", flush=True)
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except (BrokenPipeError, KeyboardInterrupt):
        sys.stderr.close()

"""How long a request may take: what its ``timeout`` says, a minute at most (docs/spec/kubectl.md §1)."""

from __future__ import annotations

import re
from typing import Final

from cathedra.api.goquote import go_quote
from cathedra.api.status import StatusError, bad_request, failure

__all__ = ["REQUEST_SECONDS", "deadline_of", "timed_out"]

REQUEST_SECONDS: Final = 60.0
"""Of everything, the coming of the body included: a client that sends byte by byte holds nothing up for longer."""

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_LONGEST: Final = 128
"""Letters of a duration. Reading longer ones would take time that no deadline ends."""
_MOST_SECONDS: Final = (1 << 63) / 1e9
"""What Go's durations, 64 bits of nanoseconds, can hold."""
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def deadline_of(text: str) -> float:
    """Seconds that a request has; "" and zero mean the server's own limit.

    Raises:
        StatusError: 400, the text is no duration.
    """
    if not text:
        return REQUEST_SECONDS
    seconds = _seconds(text)
    if seconds is None:
        shown = go_quote(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")
        raise bad_request(f"invalid timeout specified in the request URL - time: invalid duration {shown}")
    return min(seconds, REQUEST_SECONDS) if seconds > 0 else REQUEST_SECONDS


def _seconds(text: str) -> float | None:
    if len(text) > _LONGEST:
        return None
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return 0.0
    parts = list(_PART.finditer(rest))
    if not parts or "".join(part[0] for part in parts) != rest:
        return None
    seconds = sum(float(part[1]) * _UNITS[part[2]] for part in parts)
    return sign * seconds if seconds < _MOST_SECONDS else None


def timed_out() -> StatusError:
    """504: the work was not done in time."""
    return failure(
        504,
        "Timeout",
        "Timeout: request did not complete within requested timeout - context deadline exceeded",
    )

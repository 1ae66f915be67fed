"""Entry points of the console scripts. An interruption while modules are loaded ends a command as one while it runs."""

from __future__ import annotations

__all__ = ["cathedra", "kubectl_dra"]

_INTERRUPTED = 130
"""128 and the number of the signal, as a shell counts."""


def cathedra() -> int:
    """``cathedra``; its exit code."""
    try:
        # inside: loading takes a third of what a short command costs, and may be interrupted as well
        from cathedra.cli.main import main

        return main()
    except KeyboardInterrupt:
        return _INTERRUPTED


def kubectl_dra() -> int:
    """``kubectl dra``, which kubectl calls as ``kubectl-dra``; its exit code."""
    try:
        # inside: as above
        from cathedra.cli.dra.main import main

        return main()
    except KeyboardInterrupt:
        return _INTERRUPTED

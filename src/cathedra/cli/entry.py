"""Entry points of the console scripts. An interruption while modules are loaded ends a command as one while it runs."""

from __future__ import annotations

import gc

__all__ = ["cathedra", "kubectl_complete_dra", "kubectl_dra"]

_INTERRUPTED = 130
"""128 and the number of the signal, as a shell counts."""
_YOUNG = 50_000
"""New objects between two collections; 700 in Python's own setting, with which collections take a fifth of the time of
loading. Modules are no garbage."""


def cathedra() -> int:
    """``cathedra``; its exit code."""
    gc.set_threshold(_YOUNG, 10, 10)
    try:
        # inside: loading takes a third of what a short command costs, and may be interrupted as well
        from cathedra.cli.main import main

        return main()
    except KeyboardInterrupt:
        return _INTERRUPTED


def kubectl_dra() -> int:
    """``kubectl dra``, which kubectl calls as ``kubectl-dra``; its exit code."""
    gc.set_threshold(_YOUNG, 10, 10)
    try:
        # inside: as above
        from cathedra.cli.dra.main import main

        return main()
    except KeyboardInterrupt:
        return _INTERRUPTED


def kubectl_complete_dra() -> int:
    """``kubectl_complete-dra``, by which kubectl completes words of the plugin; its exit code."""
    try:
        # inside: as above
        from cathedra.cli.dra.main import complete

        return complete()
    except KeyboardInterrupt:
        return _INTERRUPTED

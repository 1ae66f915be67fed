"""Entry points of the console scripts. An interruption while modules are loaded ends a command as one while it runs."""

from __future__ import annotations

import gc
import os
import sys

__all__ = ["cathedra", "kubectl_complete_dra", "kubectl_dra"]

_INTERRUPTED = 130
"""128 and the number of the signal, as a shell counts."""
_BROKEN_PIPE = 1
"""The reader of the output has gone."""
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

        code = main()
        sys.stdout.flush()
        sys.stderr.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        return _BROKEN_PIPE
    # A cluster is hundreds of thousands of objects. Python would free them one by one, which takes 6 % of the time of
    # a command, and nothing else is left to be done: the commands write no files.
    os._exit(code)


def kubectl_complete_dra() -> int:
    """``kubectl_complete-dra``, by which kubectl completes words of the plugin; its exit code."""
    try:
        # inside: as above
        from cathedra.cli.dra.main import complete

        return complete()
    except KeyboardInterrupt:
        return _INTERRUPTED

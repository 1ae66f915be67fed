"""Specs of pods that are alike for the rules of pods: they differ in the name of the volume with their credentials.

Admission gives each new pod such a name. The pods of a workload have nothing else to tell their specs apart, and
no rule asks for more of that name than that it is one.
"""

from __future__ import annotations

from typing import Final

from cathedra.kinds.identity import Likeness

__all__ = ["SPECS"]

SPECS: Final = Likeness()
"""The patterns of specs that were made lately."""

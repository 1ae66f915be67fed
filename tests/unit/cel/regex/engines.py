"""The engines that are installed here, for tests that all of them must pass."""

from __future__ import annotations

from typing import Final

import pytest

from cathedra.cel.regex.engine import installed_engines

EACH_ENGINE: Final = pytest.mark.parametrize("engine", installed_engines())

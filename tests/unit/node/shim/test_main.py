"""The shim as a program: what it needs, and that there is one of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cathedra


def test_the_shim_stands_on_the_standard_library_alone() -> None:
    program = (
        f"import sys; sys.path.append({str(Path(cathedra.__file__).parents[1])!r}); "
        "import cathedra.node.shim.main; "
        "print([n for n in sys.modules "
        "if n.startswith('cathedra.') and not n.startswith(('cathedra.node', 'cathedra.files'))])"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

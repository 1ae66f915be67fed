"""The files of a new driver: the output of ``cathedra driver-new``.

The templates in ``scaffold`` are a driver, its tests, an example pod, an image and a README. The manifest is that of
``cathedra driver-manifest``.
"""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path
from string import Template
from typing import Final

from cathedra.api.formats import dns_subdomain
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.drivermanifest import driver_manifest

__all__ = ["scaffold_files"]

_TEMPLATES: Final = Path(__file__).with_name("scaffold")
_LONGEST: Final = 63
_NAMESPACE: Final = "dra-drivers"


def scaffold_files(name: str) -> dict[str, str]:
    """Return file name → content of a new driver ``name``: ``lamp.example.com``, or for a start ``lamp``.

    Raises:
        InvalidOption: ``name`` is no name of a driver, or its first part cannot be the name of a Python module.
    """
    name = name if "." in name else f"{name}.example.com"
    if len(name) > _LONGEST or dns_subdomain(name):
        raise InvalidOption(
            f"{name!r} is no name of a driver: it must be a DNS subdomain in a domain that you own, of at most "
            f"{_LONGEST} characters, as lamp.example.com"
        )
    word = name.partition(".")[0]
    module = word.replace("-", "_")
    if not module.isidentifier() or keyword.iskeyword(module) or module in {"cathedra", *sys.stdlib_module_names}:
        raise InvalidOption(
            f"{name!r}: the driver's module would be {module}.py, which Python cannot import; choose another first part"
        )
    values = {
        "driver": name,
        "word": word,
        "module": module,
        "project": f"{word}-driver",
        "kind": "".join(part.capitalize() for part in re.split(r"[-_]", word)),
        "variable": module.upper(),
    }
    files = {
        path.name.removesuffix(".txt").replace("driver.py", f"{module}.py"): Template(path.read_text()).substitute(
            values
        )
        for path in sorted(_TEMPLATES.glob("*.txt"))
    }
    target = f"{module}:{values['kind']}Driver"
    files["manifest.yaml"] = driver_manifest(name, target, image=f"{word}:0.1.0", namespace=_NAMESPACE).decode()
    return files

"""Container annotations that name CDI devices to a runtime: the way before the runtime interface had a field for it.

docs/spec/node.md §19.6. The node agent does not write them; a runtime behind it may still be asked to honour
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from cathedra.cdi.errors import InvalidName
from cathedra.cdi.names import QualifiedName

__all__ = ["PREFIX", "annotation", "devices_of"]

PREFIX: Final = "cdi.k8s.io/"
_MAX_NAME: Final = 63
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)


def annotation(plugin: str, device_id: str, devices: Iterable[str]) -> tuple[str, str]:
    """Key and value that name ``devices``.

    Raises:
        InvalidName: the key would be no annotation key, or a device is not qualified.
    """
    name = f"{plugin}_{device_id.replace('/', '_')}"
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        raise InvalidName(f'invalid annotation key "{PREFIX}{name}"')
    return PREFIX + name, ",".join(str(QualifiedName.parse(device)) for device in devices)


def devices_of(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """The devices that all CDI annotations together name, in order of keys, each once.

    Raises:
        InvalidName: a value names something that is not qualified.
    """
    named = [name for key, value in sorted(annotations.items()) if key.startswith(PREFIX) for name in value.split(",")]
    return tuple(str(QualifiedName.parse(name)) for name in dict.fromkeys(named))

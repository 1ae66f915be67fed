"""Every field of the device kinds is described, in every version, for ``kubectl explain``."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from importlib.resources import files

import pytest

from cathedra.api.struct import KubeStruct, json_names

MODULES = (
    "cathedra.api.resource",
    "cathedra.api.core.resource_v1beta1",
    "cathedra.api.core.resource_v1alpha3",
)
COMMON = {"kind", "apiVersion", "metadata"}


def types(module: str) -> Iterator[type[KubeStruct]]:
    for found in vars(importlib.import_module(module)).values():
        if isinstance(found, type) and issubclass(found, KubeStruct) and found.__module__ == module:
            yield found


@pytest.mark.parametrize("module", MODULES)
def test_every_type_and_field_has_words_of_its_own(module: str) -> None:
    texts = json.loads(files("cathedra.apiserver.openapi").joinpath("descriptions.json").read_text(encoding="utf-8"))
    missing = [
        f"{kind.__name__}.{field}"
        for kind in types(module)
        if not kind.__name__.endswith("List")
        for field in ("", *json_names(kind).values())
        if field not in COMMON and not texts.get(kind.__name__, {}).get(field)
    ]
    assert missing == []

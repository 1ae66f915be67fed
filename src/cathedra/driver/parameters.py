"""Opaque parameters of claims and classes as objects of the driver's models: strictly, and wherever they are looked at.

A webhook (`cathedra.driver.webhook`) refuses in the same words what a claim (`cathedra.driver.claim`) would be
refused for when it is prepared (docs/spec/driver-sdk.md §12).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_type_hints

import msgspec

from cathedra.api.nulls import convert
from cathedra.driver.errors import ConfigError

__all__ = ["ConfigModels", "decode_parameters"]

ConfigModels = Mapping[tuple[str, str], type[Any]]
"""(apiVersion, kind) of opaque parameters → the dataclass or struct that they fill."""


def decode_parameters(values: Mapping[str, Any], models: ConfigModels, where: str) -> Any:
    """Parameters as an object of the driver's model; ``where`` they stand is for errors.

    Raises:
        ConfigError: the driver has no such kind, a field is unknown, or a value is not what the model takes.
    """
    kind = (str(values.get("apiVersion", "")), str(values.get("kind", "")))
    model = models.get(kind)
    if model is None:
        known = ", ".join(f"{version} {name}" for version, name in models)
        raise ConfigError(f'{where}: no kind "{kind[1]}" is known in "{kind[0]}"; this driver takes {known}')
    fields = {key: value for key, value in values.items() if key not in ("apiVersion", "kind")}
    _refuse_unknown(fields, model, where)
    try:
        return convert(fields, model)
    except (msgspec.ValidationError, ValueError) as problem:
        raise ConfigError(f"{where}: {problem}") from problem


def _refuse_unknown(values: Mapping[str, Any], model: type[Any], where: str) -> None:
    # Structs say themselves whether unknown fields are refused; dataclasses cannot, and a typing error in a manifest
    # that is silently ignored costs its author hours.
    if not dataclasses.is_dataclass(model):
        return
    hints = get_type_hints(model)
    for name, value in values.items():
        if name not in hints:
            raise ConfigError(f'{where}: unknown field "{name}"; {model.__name__} has {", ".join(hints)}')
        if isinstance(value, dict) and isinstance(hints[name], type):
            _refuse_unknown(value, hints[name], f"{where}.{name}")

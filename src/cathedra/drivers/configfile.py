"""The configuration files of drivers: YAML, read strictly."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from cathedra.api.decoding import DecodeError, read_yaml
from cathedra.api.nulls import convert
from cathedra.driver import OptionError

T = TypeVar("T", bound=msgspec.Struct)


def read_config(path: Path | None, model: type[T]) -> T:
    """Return a configuration file as ``model``; without a file, the model's defaults.

    Raises:
        OptionError: the file cannot be read or does not match the model.
    """
    if path is None:
        return model()
    try:
        return convert(read_yaml(path.read_bytes()).value or {}, model)
    except OSError as error:
        raise OptionError(f"cannot read {path}: {error.strerror}") from error
    except (DecodeError, msgspec.ValidationError, ValueError) as error:
        raise OptionError(f"{path}: {error}") from error

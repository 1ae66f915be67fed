"""A driver by the name of its class: ``MODULE:DRIVER``, as its author types it beside the file."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cathedra.driver.driver import Driver
from cathedra.driver.errors import OptionError


def load_maker(text: str) -> Callable[[], Any]:
    """Return the class, or the function that makes a driver; modules of the working directory are found.

    Raises:
        OptionError: there is none of that name.
    """
    module, colon, name = text.partition(":")
    if not module or not colon or not name:
        raise OptionError(f"{text!r} must be MODULE:DRIVER, a class or a function that makes a driver")
    if module.endswith(".py"):
        raise OptionError(f"{text!r}: MODULE is what is imported, without .py: {module.removesuffix('.py')}:{name}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        make: Callable[[], Any] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        where = f" (looked in {Path.cwd()} too)" if error.name == module else ""
        raise OptionError(f"{text}: {error}{where}") from error
    except (ImportError, AttributeError) as error:
        raise OptionError(f"{text}: {error}") from error
    return make


def load_driver(text: str, config: Path | None = None, driver_root: Path | None = None) -> Driver:
    """Return the driver that ``MODULE:DRIVER`` makes, with the file ``config`` and the directory ``driver_root`` if
    given.

    Raises:
        OptionError: it makes none.
    """
    made: Any = load_maker(text)
    given = () if config is None else (config,)
    named = {} if driver_root is None else {"driver_root": driver_root}
    try:
        driver = made(*given, **named) if callable(made) else made
    except TypeError as error:
        if driver_root is not None and "driver_root" in str(error):
            raise OptionError(f"{text} takes no --driver-root: {error}") from error
        raise OptionError(f"{text} is not made {'without' if config is None else 'with'} a file: {error}") from error
    if not isinstance(driver, Driver):
        raise OptionError(f"{text} makes a {type(driver).__name__}, which is no cathedra.driver.Driver")
    return driver

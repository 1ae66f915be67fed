"""What was ordered of a driver, as a file in its own directory: a driver that is started again goes on as ordered."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

from cathedra.driver import OptionError
from cathedra.files.atomic import write_durable

__all__ = ["Binding", "Effect", "HealthOrder", "Orders", "State", "TaintOrder", "read_orders", "write_orders"]

ORDERS_FILE: Final = "orders.json"

Effect = Literal["None", "NoSchedule", "NoExecute"]
State = Literal["Healthy", "Unhealthy", "Unknown"]
Binding = Literal["ready", "hold", "fail"]


class TaintOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A taint that a device is to have."""

    value: str
    effect: Effect


class HealthOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a device is to be."""

    state: State
    message: str = ""


class Orders(msgspec.Struct, forbid_unknown_fields=True):
    """All of it."""

    taints: dict[str, dict[str, TaintOrder]] = {}
    """Device → key → taint."""
    health: dict[str, HealthOrder] = {}
    failing: dict[str, str] = {}
    """Call → what it fails with."""
    blocked: set[str] = set()
    """Calls that wait."""
    binding: Binding = "ready"
    """What becomes of binding conditions."""


def read_orders(directory: Path) -> Orders:
    """What was ordered before; nothing if there is no file.

    Raises:
        OptionError: the file is of another hand.
    """
    path = directory / ORDERS_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Orders)
    except FileNotFoundError:
        return Orders()
    except (OSError, msgspec.DecodeError) as error:
        raise OptionError(f"{path}: {error}; without this file the driver starts with no orders") from error


def write_orders(directory: Path, orders: Orders) -> None:
    """Keep what is ordered now.

    Raises:
        OSError: the file cannot be written.
    """
    write_durable(directory / ORDERS_FILE, msgspec.json.encode(orders, order="sorted"))

"""Orders to a driver that runs: a device gets a taint or falls ill, calls fail or hang, binding is held back.

They come over a unix socket in the driver's own directory, one JSON array of words for one line of JSON in answer;
``cathedra driver-control`` sends them. What was ordered holds until it is taken back, also when the driver is started
again (docs/spec/driver-sdk.md §18).

What was ordered of a driver, as a file in its own directory: a driver that is started again goes on as ordered.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal, cast, get_args

import msgspec

from cathedra.api.resource import DeviceTaint
from cathedra.driver import DeviceHealth, DriverError, Health, OptionError
from cathedra.files.atomic import write_durable

CONTROL_SOCKET: Final = "ctl.sock"
"""The socket's name in the driver's directory: no longer than that of the gRPC service, which fits everywhere."""
PREPARE: Final = "NodePrepareResources"
UNPREPARE: Final = "NodeUnprepareResources"
CALLS: Final = (PREPARE, UNPREPARE, "GetInfo", "NotifyRegistrationStatus", "NodeWatchResources")
"""Calls that can fail or be blocked, for each claim or as a whole."""


ORDERS_FILE: Final = "orders.json"

Effect = Literal["None", "NoSchedule", "NoExecute"]
State = Literal["Healthy", "Unhealthy", "Unknown"]
Binding = Literal["ready", "hold", "fail"]


class TaintOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A taint that a device is to have."""

    value: str
    effect: Effect


class HealthOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Injected health of a device."""

    state: State
    message: str = ""


class Orders(msgspec.Struct, forbid_unknown_fields=True):
    """All injected faults; stored in a file."""

    taints: dict[str, dict[str, TaintOrder]] = {}
    """Device → key → taint."""
    health: dict[str, HealthOrder] = {}
    failing: dict[str, str] = {}
    """Call → the error with which it fails."""
    blocked: set[str] = set()
    """Names of the calls that are blocked."""
    binding: Binding = "ready"
    """Treatment of binding conditions."""


def read_orders(directory: Path) -> Orders:
    """Return the stored orders; none if there is no file.

    Raises:
        OptionError: the file has another format.
    """
    path = directory / ORDERS_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Orders)
    except FileNotFoundError:
        return Orders()
    except (OSError, msgspec.DecodeError) as error:
        raise OptionError(f"{path}: {error}; without this file the driver starts with no orders") from error


def write_orders(directory: Path, orders: Orders) -> None:
    """Store the present commands.

    Raises:
        OSError: the file cannot be written.
    """
    write_durable(directory / ORDERS_FILE, msgspec.json.encode(orders, order="sorted"))


BINDINGS: Final = get_args(Binding)
ORDERS: Final = {
    "taint": "DEVICE KEY[=VALUE]:EFFECT",
    "untaint": "DEVICE KEY",
    "health": "DEVICE Healthy|Unhealthy|Unknown [MESSAGE]",
    "fail": f"{'|'.join(CALLS)} [MESSAGE]",
    "block": "|".join(CALLS),
    "release": "|".join(CALLS),
    "binding": "|".join(BINDINGS),
    "calls": "",
    "rpcs": "[METHOD]",
    "reset": "",
    "show": "",
}
"""Every order and its words."""
_STATES: Final = {"Healthy": Health.HEALTHY, "Unhealthy": Health.UNHEALTHY, "Unknown": Health.UNKNOWN}
_HEALTHY: Final = HealthOrder("Healthy")
_LONGEST_LINE: Final = 65536
_REMEMBERED_CALLS: Final = 1000


class OrderError(DriverError):
    """An invalid order. The text has the valid form."""


class RecordedCall(msgspec.Struct, frozen=True):
    """A call that has ended, or a message of a stream."""

    method: str
    """Service and call, as ``v1.DRAPlugin/NodePrepareResources``."""
    request: str
    response: str = ""
    error: str = ""

    def __str__(self) -> str:
        end = f"error: {self.error}" if self.error else f"response: {{{self.response}}}"
        return f"{self.method} request: {{{self.request}}} {end}"


class Controls:
    """Current orders, and notification of changes."""

    def __init__(self, devices: Callable[[], Sequence[str]], republish: Callable[[], None]) -> None:
        """``devices`` names those that there are; ``republish`` is called when their taints change."""
        self._devices = devices
        self._republish = republish
        self._orders = Orders()
        self._directory: Path | None = None
        self.calls: deque[tuple[str, str]] = deque(maxlen=_REMEMBERED_CALLS)
        """The last calls that reached the driver: which, and for which claim."""
        self.rpcs: deque[RecordedCall] = deque(maxlen=_REMEMBERED_CALLS)
        """The last that came over gRPC; none on a simulated node, which is called without."""
        self._changed = asyncio.Event()
        self._recorded = asyncio.Event()

    def keep_in(self, directory: Path) -> None:
        """Restore the earlier commands, and store later ones.

        Raises:
            OptionError: the directory's file of orders cannot be read.
        """
        self._directory = directory
        self._orders = read_orders(directory)

    @property
    def binding(self) -> str:
        """Treatment of binding conditions: one of `BINDINGS`."""
        return self._orders.binding

    def taints(self, device: str) -> tuple[DeviceTaint, ...]:
        """Return the taints that a device was given."""
        return tuple(
            DeviceTaint(key=key, value=taint.value, effect=taint.effect)
            for key, taint in self._orders.taints.get(device, {}).items()
        )

    def health(self) -> tuple[DeviceHealth, ...]:
        """Return the health of every device."""
        return tuple(self._health_of(name) for name in self._devices())

    def _health_of(self, device: str) -> DeviceHealth:
        order = self._orders.health.get(device, _HEALTHY)
        return DeviceHealth(device, _STATES[order.state], message=order.message)

    def changed(self) -> asyncio.Event:
        """Return an event that is set with the next order."""
        return self._changed

    async def passing(self, call: str, claim: str) -> None:
        """Write down a call for a claim, and wait while such calls are blocked.

        Raises:
            OrderError: the call is to fail.
        """
        self.calls.append((call, claim))
        error = await self._passing(call)
        if error:
            raise OrderError(error)

    async def _passing(self, call: str) -> str:
        while call in self._orders.blocked:
            await self._changed.wait()
        return self._orders.failing.get(call, "")

    async def passing_server(self, call: str) -> str:
        """Return the same for calls that do not reach the driver; of the others, each claim is let pass by itself."""
        return "" if call in (PREPARE, UNPREPARE) else await self._passing(call)

    def record(self, call: RecordedCall) -> None:
        """Write down what came over gRPC."""
        self.rpcs.append(call)
        recorded, self._recorded = self._recorded, asyncio.Event()
        recorded.set()

    async def called(self) -> None:
        """Wait for the next call over gRPC to end."""
        await self._recorded.wait()

    async def forever(self) -> None:
        """Wait until the call is cancelled, as for a lost one."""
        while True:
            await self._changed.wait()

    def carry_out(self, words: Sequence[str]) -> list[str]:
        """Execute one order. Return lines that describe the new state.

        Raises:
            OrderError: the order is invalid, or names something that does not exist.
            OSError: it cannot be stored.
        """
        verb, *rest = words or [""]
        if verb not in ORDERS:
            raise OrderError(f"{verb!r} is no order; there are {', '.join(ORDERS)}")
        if verb == "calls":
            _count(rest, 0, 0, "calls")
            return [f"{call} {claim}" for call, claim in self.calls]
        if verb == "rpcs":
            _count(rest, 0, 1, "rpcs")
            return [str(one) for one in self.rpcs if one.method.endswith("".join(rest))]
        orders: dict[str, Callable[[Sequence[str]], None]] = {
            "taint": self._taint,
            "untaint": self._untaint,
            "health": self._set_health,
            "fail": self._fail,
            "block": self._block,
            "release": self._release,
            "binding": self._bind,
            "reset": self._reset,
            "show": lambda rest: _count(rest, 0, 0, "show"),
        }
        orders[verb](rest)
        if verb != "show":
            self._ordered()
        return list(self._lines())

    def _ordered(self) -> None:
        """Store the current orders and notify listeners."""
        if self._directory is not None:
            write_orders(self._directory, self._orders)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _taint(self, words: Sequence[str]) -> None:
        _count(words, 2, 2, "taint")
        device, (pair, colon, effect) = self._device(words[0]), words[1].rpartition(":")
        key, _, value = pair.partition("=")
        if not colon or not key or effect not in get_args(Effect):
            effects = ", ".join(get_args(Effect))
            raise OrderError(f"{words[1]!r} must be KEY=VALUE:EFFECT with one of the effects {effects}")
        self._orders.taints.setdefault(device, {})[key] = TaintOrder(value, cast(Effect, effect))
        self._republish()

    def _untaint(self, words: Sequence[str]) -> None:
        _count(words, 2, 2, "untaint")
        device = self._device(words[0])
        if self._orders.taints.get(device, {}).pop(words[1], None) is None:
            raise OrderError(f"{device} has no taint {words[1]!r}")
        self._republish()

    def _set_health(self, words: Sequence[str]) -> None:
        _count(words, 2, 3, "health")
        device, state = self._device(words[0]), words[1]
        if state not in _STATES:
            raise OrderError(f"{state!r} is no state of health; there are {', '.join(_STATES)}")
        self._orders.health[device] = HealthOrder(cast(State, state), "".join(words[2:]))

    def _fail(self, words: Sequence[str]) -> None:
        _count(words, 1, 2, "fail")
        self._orders.failing[_call(words[0])] = "".join(words[1:]) or f"{words[0]} was ordered to fail"

    def _block(self, words: Sequence[str]) -> None:
        _count(words, 1, 1, "block")
        self._orders.blocked.add(_call(words[0]))

    def _release(self, words: Sequence[str]) -> None:
        _count(words, 1, 1, "release")
        call = _call(words[0])
        self._orders.blocked.discard(call)
        self._orders.failing.pop(call, None)

    def _bind(self, words: Sequence[str]) -> None:
        _count(words, 1, 1, "binding")
        if words[0] not in BINDINGS:
            raise OrderError(f"{words[0]!r} is not one of {', '.join(BINDINGS)}")
        self._orders.binding = cast(Binding, words[0])

    def _reset(self, words: Sequence[str]) -> None:
        _count(words, 0, 0, "reset")
        self._orders = Orders()
        self.calls.clear()
        self.rpcs.clear()
        self._republish()

    def _device(self, name: str) -> str:
        known = self._devices()
        if name not in known:
            raise OrderError(f"there is no device {name!r}; there are {', '.join(known)}")
        return name

    def _lines(self) -> list[str]:
        orders = self._orders
        lines = [
            f"{device}: taint {key}={taint.value}:{taint.effect}"
            for device, taints in sorted(orders.taints.items())
            for key, taint in taints.items()
        ]
        lines += [
            f"{device}: {order.state}" + (f" ({order.message})" if order.message else "")
            for device, order in sorted(orders.health.items())
        ]
        lines += [f"{call}: fails: {text}" for call, text in sorted(orders.failing.items())]
        lines += [f"{call}: is blocked" for call in sorted(orders.blocked)]
        return [*lines, *([] if orders.binding == "ready" else [f"binding conditions: {orders.binding}"])]


def _count(words: Sequence[str], least: int, most: int, verb: str) -> None:
    if not least <= len(words) <= most:
        raise OrderError(f"{verb} takes: {ORDERS[verb] or 'nothing'}")


def _call(name: str) -> str:
    if name not in CALLS:
        raise OrderError(f"{name!r} is no call; there are {', '.join(CALLS)}")
    return name


@asynccontextmanager
async def serving_controls(controls: Controls, directory: Path) -> AsyncIterator[None]:
    """Take orders on the socket in ``directory`` while the body runs; only the driver's own user can give them.

    Raises:
        OSError: the socket cannot be made.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(_answer(controls, await reader.readline()))
            await writer.drain()
        except (ConnectionError, ValueError):
            return  # the client has disconnected, or its line is too long
        finally:
            writer.close()

    path = directory / CONTROL_SOCKET
    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(answer, path, limit=_LONGEST_LINE)
    path.chmod(0o600)
    async with server:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _answer(controls: Controls, line: bytes) -> bytes:
    try:
        words = json.loads(line)
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise OrderError("an order is a JSON array of words")
        answer: dict[str, object] = {"lines": controls.carry_out(words)}
    except (OrderError, OSError, ValueError, RecursionError) as error:
        answer = {"error": str(error)}
    return json.dumps(answer).encode() + b"\n"


async def order(directory: Path, words: Sequence[str]) -> list[str]:
    """Give an order to the driver of that directory; answers its lines.

    Raises:
        OrderError: the driver refuses it, or none listens there.
    """
    path = directory / CONTROL_SOCKET
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=16 * _LONGEST_LINE)
    except OSError as error:
        raise OrderError(f"no driver takes orders at {path}: {error.strerror}") from error
    try:
        writer.write(json.dumps(list(words)).encode() + b"\n")
        await writer.drain()
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise OrderError(f"the driver at {path} went away")
    answer = json.loads(line)
    if "error" in answer:
        raise OrderError(str(answer["error"]))
    return [str(one) for one in answer["lines"]]

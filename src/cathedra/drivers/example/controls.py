"""Orders to a driver that runs: a device gets a taint or falls ill, calls fail or hang, binding is held back.

They come over a unix socket in the driver's own directory, one JSON array of words for one line of JSON in answer;
``cathedra driver-control`` sends them. What was ordered is forgotten when the driver ends
(docs/spec/driver-sdk.md §18).
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from cathedra.api.resource import DeviceTaint
from cathedra.driver import DeviceHealth, DriverError, Health

__all__ = [
    "BINDINGS",
    "CONTROL_SOCKET",
    "ORDERS",
    "PREPARE",
    "UNPREPARE",
    "Controls",
    "OrderError",
    "order",
    "serving_controls",
]

CONTROL_SOCKET: Final = "ctl.sock"
"""The socket's name in the driver's directory: no longer than that of the gRPC service, which fits everywhere."""
PREPARE: Final = "NodePrepareResources"
UNPREPARE: Final = "NodeUnprepareResources"
BINDINGS: Final = ("ready", "hold", "fail")
ORDERS: Final = {
    "taint": "DEVICE KEY[=VALUE]:EFFECT",
    "untaint": "DEVICE KEY",
    "health": "DEVICE Healthy|Unhealthy|Unknown [MESSAGE]",
    "fail": f"{PREPARE}|{UNPREPARE} [MESSAGE]",
    "block": f"{PREPARE}|{UNPREPARE}",
    "release": f"{PREPARE}|{UNPREPARE}",
    "binding": "|".join(BINDINGS),
    "calls": "",
    "show": "",
}
"""Every order and its words."""
_EFFECTS: Final = ("None", "NoSchedule", "NoExecute")
_STATES: Final = {"Healthy": Health.HEALTHY, "Unhealthy": Health.UNHEALTHY, "Unknown": Health.UNKNOWN}
_LONGEST_LINE: Final = 65536
_REMEMBERED_CALLS: Final = 1000


class OrderError(DriverError):
    """An order that cannot be carried out; the text says how it is to be given."""


class Controls:
    """What was ordered, and who is to hear of it."""

    def __init__(self, devices: Callable[[], Sequence[str]], republish: Callable[[], None]) -> None:
        """``devices`` names those that there are; ``republish`` is called when their taints change."""
        self._devices = devices
        self._republish = republish
        self._taints: dict[str, dict[str, DeviceTaint]] = {}
        self._health: dict[str, DeviceHealth] = {}
        self._failing: dict[str, str] = {}
        self._blocked: set[str] = set()
        self.binding = "ready"
        """What becomes of binding conditions: one of `BINDINGS`."""
        self.calls: deque[tuple[str, str]] = deque(maxlen=_REMEMBERED_CALLS)
        """The last calls that reached the driver: which, and for which claim."""
        self._changed = asyncio.Event()

    def taints(self, device: str) -> tuple[DeviceTaint, ...]:
        """The taints that a device was given."""
        return tuple(self._taints.get(device, {}).values())

    def health(self) -> tuple[DeviceHealth, ...]:
        """How every device is."""
        return tuple(self._health.get(name) or DeviceHealth(name, Health.HEALTHY) for name in self._devices())

    def changed(self) -> asyncio.Event:
        """An event that is set with the next order."""
        return self._changed

    async def passing(self, call: str, claim: str) -> None:
        """Write down a call for a claim, and wait while such calls are blocked.

        Raises:
            OrderError: the call is to fail.
        """
        self.calls.append((call, claim))
        while call in self._blocked:
            await self._changed.wait()
        if call in self._failing:
            raise OrderError(self._failing[call])

    async def forever(self) -> None:
        """Wait until cancelled."""
        while True:
            await self._changed.wait()

    def carry_out(self, words: Sequence[str]) -> list[str]:
        """Carry out one order; answers lines that say what holds now.

        Raises:
            OrderError: it is none, or names what is not there.
        """
        verb, *rest = words or [""]
        if verb not in ORDERS:
            raise OrderError(f"{verb!r} is no order; there are {', '.join(ORDERS)}")
        orders: dict[str, Callable[[Sequence[str]], None]] = {
            "taint": self._taint,
            "untaint": self._untaint,
            "health": self._set_health,
            "fail": self._fail,
            "block": self._block,
            "release": self._release,
            "binding": self._bind,
            "calls": lambda rest: _count(rest, 0, 0, "calls"),
            "show": lambda rest: _count(rest, 0, 0, "show"),
        }
        orders[verb](rest)
        if verb == "calls":
            return [f"{call} {claim}" for call, claim in self.calls]
        if verb != "show":
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
        return list(self._lines())

    def _taint(self, words: Sequence[str]) -> None:
        _count(words, 2, 2, "taint")
        device, (pair, colon, effect) = self._device(words[0]), words[1].rpartition(":")
        key, _, value = pair.partition("=")
        if not colon or not key or effect not in _EFFECTS:
            raise OrderError(f"{words[1]!r} must be KEY=VALUE:EFFECT with one of the effects {', '.join(_EFFECTS)}")
        self._taints.setdefault(device, {})[key] = DeviceTaint(key=key, value=value, effect=effect)
        self._republish()

    def _untaint(self, words: Sequence[str]) -> None:
        _count(words, 2, 2, "untaint")
        device = self._device(words[0])
        if self._taints.get(device, {}).pop(words[1], None) is None:
            raise OrderError(f"{device} has no taint {words[1]!r}")
        self._republish()

    def _set_health(self, words: Sequence[str]) -> None:
        _count(words, 2, 3, "health")
        device, state = self._device(words[0]), words[1]
        if state not in _STATES:
            raise OrderError(f"{state!r} is no state of health; there are {', '.join(_STATES)}")
        self._health[device] = DeviceHealth(device, _STATES[state], message="".join(words[2:]))

    def _fail(self, words: Sequence[str]) -> None:
        _count(words, 1, 2, "fail")
        self._failing[_call(words[0])] = "".join(words[1:]) or f"{words[0]} was ordered to fail"

    def _block(self, words: Sequence[str]) -> None:
        _count(words, 1, 1, "block")
        self._blocked.add(_call(words[0]))

    def _release(self, words: Sequence[str]) -> None:
        _count(words, 1, 1, "release")
        call = _call(words[0])
        self._blocked.discard(call)
        self._failing.pop(call, None)

    def _bind(self, words: Sequence[str]) -> None:
        _count(words, 1, 1, "binding")
        if words[0] not in BINDINGS:
            raise OrderError(f"{words[0]!r} is not one of {', '.join(BINDINGS)}")
        self.binding = words[0]

    def _device(self, name: str) -> str:
        known = self._devices()
        if name not in known:
            raise OrderError(f"there is no device {name!r}; there are {', '.join(known)}")
        return name

    def _lines(self) -> list[str]:
        lines = [
            f"{device}: taint {taint.key}={taint.value}:{taint.effect}"
            for device, taints in sorted(self._taints.items())
            for taint in taints.values()
        ]
        lines += [
            f"{device}: {report.state.name.capitalize()}" + (f" ({report.message})" if report.message else "")
            for device, report in sorted(self._health.items())
        ]
        lines += [f"{call}: fails: {text}" for call, text in sorted(self._failing.items())]
        lines += [f"{call}: is blocked" for call in sorted(self._blocked)]
        return [*lines, *([] if self.binding == "ready" else [f"binding conditions: {self.binding}"])]


def _count(words: Sequence[str], least: int, most: int, verb: str) -> None:
    if not least <= len(words) <= most:
        raise OrderError(f"{verb} takes: {ORDERS[verb] or 'nothing'}")


def _call(name: str) -> str:
    if name not in (PREPARE, UNPREPARE):
        raise OrderError(f"{name!r} is no call; there are {PREPARE} and {UNPREPARE}")
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
            return  # who asked has gone, or sends a line without end
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
    except (OrderError, ValueError, RecursionError) as error:
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

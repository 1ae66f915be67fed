"""Exceptions of the SDK, and those that a driver may raise.

DriverError
├── OptionError             the driver or its runner is set up wrongly
├── ConfigError             opaque parameters of a claim or class cannot be understood
├── CheckpointDamaged       the record of prepared claims cannot be read
├── DeviceInUse             a device is still prepared for another claim
├── CallFailed              a whole prepare or unprepare call failed
├── RegistrationFailed      the node agent refused the driver
├── DeviceError             a device, or one of its attributes, cannot be published
├── PoolError               desired devices contradict each other; nothing is published
└── DroppedFieldsError      the API server does not know a field of a published slice
Retry                       raised by a driver: transient, try again inside this call
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "CallFailed",
    "CheckpointDamaged",
    "ConfigError",
    "DeviceError",
    "DeviceInUse",
    "DriverError",
    "DroppedFieldsError",
    "OptionError",
    "PoolError",
    "RegistrationFailed",
    "Retry",
]


class DriverError(Exception):
    """Base of everything the SDK raises."""


class OptionError(DriverError, ValueError):
    """The driver or its runner is configured wrongly. The text names the option."""


class ConfigError(DriverError):
    """Opaque parameters cannot be understood: unknown kind, unknown field, wrong type, or newer than this driver."""


class CheckpointDamaged(DriverError):
    """The record of prepared claims cannot be read. Its content is recovered from other sources as far as possible."""

    def __init__(self, path: Path, kept: Path, problem: str) -> None:
        self.path, self.kept, self.problem = path, kept, problem
        super().__init__(
            f"{path} is damaged ({problem}) and kept as {kept}; prepared claims are recovered from CDI documents and "
            "from the API server, and their devices are given to no other claim until these are unprepared"
        )


class DeviceInUse(DriverError):
    """A device is still prepared for another claim. The node agent tries again, and by then it is free."""

    def __init__(self, pool: str, device: str, holder: str) -> None:
        self.pool, self.device, self.holder = pool, device, holder
        super().__init__(
            f"device {pool}/{device} is still prepared for claim {holder}; it can be prepared again once that is undone"
        )


class CallFailed(DriverError):
    """A whole call failed, for all its claims; the caller tries again later."""


class RegistrationFailed(DriverError):
    """The node agent refused the driver."""


class DeviceError(DriverError, TypeError):
    """A device, or one of its attributes, cannot be published: its value has no form in the API, or is refused there.

    The other devices are published, and the device without the attribute.
    """

    def __init__(self, device: str, problem: str, attribute: str = "") -> None:
        self.device, self.problem, self.attribute = device, problem, attribute
        """``attribute`` is "" if the device as a whole cannot be published."""
        super().__init__(f'device "{device}": {problem}')


class PoolError(DriverError):
    """Desired devices contradict each other; nothing is published until they are corrected."""


class DroppedFieldsError(DriverError):
    """The API server stored a slice without some of its fields: their feature is off there.

    A driver may react by publishing something simpler (docs/spec/driver-sdk.md §11.6).
    """

    def __init__(self, pool: str, slice_index: int, features: Sequence[str]) -> None:
        self.pool, self.slice_index, self.features = pool, slice_index, tuple(features)
        super().__init__(
            f'pool "{pool}", slice #{slice_index}: some fields were dropped by the apiserver, '
            f"probably because these features are disabled: {', '.join(features) or 'unknown'}"
        )


class Retry(Exception):
    """Raised by a driver's ``prepare`` or ``unprepare`` for a transient failure: retry within the same call.

    A failed prepare is retried only after a minute or more, so a short failure is best waited for here. The SDK
    repeats with growing pauses until five seconds before the call's deadline (docs/spec/driver-sdk.md §5.5).
    """

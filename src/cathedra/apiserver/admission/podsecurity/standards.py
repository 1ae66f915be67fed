"""What a namespace's labels ask of its pods: a level and a version for each of enforce, audit and warn.

Labels that make no sense are errors where a namespace is written; where a pod is, enforcement is strict then, audit and
warnings fall silent (api.PolicyToEvaluate of k8s.io/pod-security-admission).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from cathedra.api.field import ErrorList, FieldPath

__all__ = ["LATEST", "PRIVILEGED", "RESTRICTED", "LevelVersion", "Policy", "policy_of"]

PREFIX: Final = "pod-security.kubernetes.io/"
PRIVILEGED: Final = "privileged"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"
LATEST: Final = 1 << 31
"""The minor version that stands for the newest."""
_LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)
_VERSION: Final = re.compile(r"v1\.([0-9]|[1-9][0-9]*)")


class LevelVersion(msgspec.Struct, frozen=True):
    """A level as it was in a version."""

    level: str = PRIVILEGED
    minor: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"

    def is_stricter(self, other: LevelVersion) -> bool:
        """Whether the level asks for more than another one."""
        return _LEVELS.index(self.level) > _LEVELS.index(other.level)


class Policy(msgspec.Struct, frozen=True):
    """What holds in a namespace."""

    enforce: LevelVersion = LevelVersion()
    audit: LevelVersion = LevelVersion()
    warn: LevelVersion = LevelVersion()

    @property
    def is_privileged(self) -> bool:
        """Whether it has nothing against any pod."""
        return self.enforce.level == self.audit.level == self.warn.level == PRIVILEGED


def policy_of(labels: Mapping[str, str]) -> tuple[Policy, ErrorList]:
    """The policy that labels ask for, and what is wrong with them."""
    errors = ErrorList()
    enforce = _asked(labels, "enforce", RESTRICTED, errors)
    audit = _asked(labels, "audit", PRIVILEGED, errors)
    warn = _asked(labels, "warn", PRIVILEGED, errors)
    # A level that is enforced is warned of, too, unless the labels say otherwise.
    if f"{PREFIX}warn" not in labels and labels.get(f"{PREFIX}enforce") in _LEVELS and enforce.is_stricter(warn):
        minor = warn.minor if f"{PREFIX}warn-version" in labels else enforce.minor
        warn = LevelVersion(enforce.level, minor)
    return Policy(enforce, audit, warn), errors


def _asked(labels: Mapping[str, str], mode: str, otherwise: str, errors: ErrorList) -> LevelVersion:
    """Level and version for one mode; ``otherwise`` is the level where the label names none."""
    level, minor = PRIVILEGED, LATEST
    name = f"{PREFIX}{mode}"
    if name in labels:
        level = labels[name]
        if level not in _LEVELS:
            errors.invalid(_path(name), level, f"must be one of {', '.join(_LEVELS)}")
            level = otherwise
    name = f"{PREFIX}{mode}-version"
    if name in labels and labels[name] != "latest":
        found = _VERSION.fullmatch(labels[name])
        if found is None:
            errors.invalid(_path(name), labels[name], 'must be "latest" or "v1.x"')
        else:
            minor = min(int(found[1][:10]), LATEST - 1)
    return LevelVersion(level, minor)


def _path(label: str) -> FieldPath:
    return FieldPath("metadata").child("labels").key(label)

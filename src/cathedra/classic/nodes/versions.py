"""Versions with which drivers registered until 1.31, and the errors of kubelets for others.

A driver offered numbers, not services: the highest one below 2 counted. One instance of a driver was registered at a
time, unless another came with a higher number.
Source: ``pkg/kubelet/cm/dra/plugin/registration.go`` of Kubernetes 1.26 to 1.31.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from cathedra.api.goquote import go_quote
from cathedra.node.plugins.client import RegistrationError
from cathedra.releases import FeatureGates, classic

Version = tuple[int, ...]
_GENERIC: Final = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)", re.ASCII)


class UnsupportedVersions(ValueError):
    """None of the versions that a driver offers is known."""


def highest_version(offered: Sequence[str]) -> Version:
    """The highest version below 2.

    Raises:
        UnsupportedVersions: there is none, or it is below 1.
    """
    highest: Version = ()
    problem = "<nil>"
    for text in reversed(offered):
        try:
            version = _parsed(text)
        except UnsupportedVersions as error:
            problem = str(error)
            continue
        if version[0] <= 1 and _is_below(highest, version):
            highest = version
    if not highest:
        raise UnsupportedVersions(
            f"could not find a highest supported version from versions ([{' '.join(offered)}]) "
            f"reported by this plugin: {problem}"
        )
    if highest[0] != 1:
        raise UnsupportedVersions(f"highest supported version reported by plugin is {_shown(highest)}, must be v1.x")
    return highest


def _parsed(text: str) -> Version:
    match = _GENERIC.match(text)
    if match is None:
        raise UnsupportedVersions(f"could not parse {go_quote(text)} as version")
    parts = match[1].split(".")
    if len(parts) < 2:
        raise UnsupportedVersions(f"illegal version string {go_quote(text)}")
    if parts[0] != "0" and parts[0].startswith("0"):
        raise UnsupportedVersions(f"illegal zero-prefixed version component {go_quote(parts[0])} in {go_quote(text)}")
    return tuple(map(int, parts))


def _is_below(one: Version, other: Version) -> bool:
    pairs = tuple(zip_longest(one, other, fillvalue=0))
    return not one or [left for left, _ in pairs] < [right for _, right in pairs]


def _shown(version: Version) -> str:
    return ".".join(map(str, version))


class RegisteredVersions:
    """The drivers that are registered with a node, each with its version."""

    def __init__(self, gates: FeatureGates) -> None:
        self._names_step = gates.has(classic.REGISTRATION_ERRORS_NAME_STEP)
        self._versions: dict[str, Version] = {}

    def enter(self, driver: str, endpoint: str, offered: Sequence[str]) -> None:
        """Let an instance of a driver in.

        Raises:
            RegistrationError: its versions are not known, or another instance is registered with as high a one.
        """
        version = self._version(driver, endpoint, offered)
        known = self._versions.get(driver, ())
        if not _is_below(known, version):
            quoted = go_quote(_shown(known))
            raise self._refusal(
                driver,
                endpoint,
                f"Another plugin with the same name is already registered with a higher supported version: {quoted}",
                "another plugin with the same name is already registered with a higher supported version: "
                f"{go_quote(_shown(version))} < {quoted}",
            )
        self._versions[driver] = version

    def leave(self, driver: str) -> None:
        """The driver is not registered any more."""
        self._versions.pop(driver, None)

    def _version(self, driver: str, endpoint: str, offered: Sequence[str]) -> Version:
        if not offered:
            empty = "empty list for supported versions"
            raise self._refusal(driver, endpoint, f"Plugin returned an {empty}", empty)
        try:
            return highest_version(offered)
        except UnsupportedVersions as error:
            quoted = f"[{' '.join(map(go_quote, offered))}]"
            text = f"one of the versions specified {quoted} are supported"
            raise self._refusal(driver, endpoint, f"N{text}. err={error}", f"n{text}: {error}") from error

    def _refusal(self, driver: str, endpoint: str, text: str, later: str) -> RegistrationError:
        """The refusal in the words of releases until 1.30, or in those of 1.31."""
        name = go_quote(driver)
        if self._names_step:
            step = f"kubernetes.io/dra: ValidatePlugin for DRA plugin {name} failed. {text}"
            return RegistrationError(f"validation failed for DRA plugin {driver} at endpoint {endpoint}: {step}")
        return RegistrationError(f"validating DRA plugin {name}: {later}")

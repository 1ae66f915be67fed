"""The releases of Kubernetes that Cathedra knows, and their order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

RELEASES: Final = tuple(f"1.{minor}" for minor in range(26, 39))
"""Every release that can be chosen with ``--kubernetes-version``, oldest first."""

UNRELEASED: Final = frozenset({"1.38"})
"""Those that Kubernetes has not released: they may be chosen, and change until then."""

NEWEST: Final = RELEASES[-1]
"""The newest release that is known: clients decode its fields, whatever the server is."""

DEFAULT_RELEASE: Final = max((release for release in RELEASES if release not in UNRELEASED), key=RELEASES.index)
"""The newest one that is released, which servers and tools are if none is given."""

CONTROL_PLANE_RELEASE: Final = "1.31"
"""The release in which both the scheduler and controllers of drivers allocate."""

CLASSIC_RELEASES: Final = RELEASES[: RELEASES.index(CONTROL_PLANE_RELEASE) + 1]
"""The releases in which drivers allocate."""

DEFAULT_CLASSIC: Final = "1.30"
"""The release of which the test driver of those releases is, if none is given: those before behave alike."""

_PATCHES: Final = {"1.36": "v1.36.2", "1.37": "v1.37.1"}
"""The patch release whose answers are followed, where it is not the first."""

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")


def git_version(release: str) -> str:
    """Return the full version of a release, as ``/version`` and nodes show it."""
    return _PATCHES.get(release, f"v{release}.0")


def nearest_release(version: str) -> str:
    """Return the known release that is nearest to a version such as «v1.33.2», or "" if it is none."""
    found = _VERSION.match(version)
    if found is None:
        return ""
    given = (int(found[1]), int(found[2]))
    known = [tuple(map(int, release.split("."))) for release in RELEASES]
    # The nearest older release: behaviour of releases in between is that of the last one before them.
    major, minor = max((one for one in known if one <= given), default=known[0])
    return f"{major}.{minor}"


@cache
def order(release: str) -> tuple[int, ...]:
    """Return the sort key of a release: ``1.9`` is older than ``1.36``."""
    return tuple(int(part) for part in release.split("."))


# Compared and hashed by identity: `FeatureGates.has` looks behaviours up in a set, per request and per pod.
@dataclass(frozen=True, eq=False, slots=True)
class Behaviour:
    """Something that Kubernetes does in the releases ``since`` to ``until``, both included; "" is open."""

    about: str
    """The behaviour as one sentence."""
    since: str = ""
    until: str = ""
    source: str = ""
    """The KEP or pull request that changed it, or the file of Kubernetes that has it."""

    def holds_in(self, release: str) -> bool:
        """Return True if the release has this behaviour."""
        if self.since and order(release) < order(self.since):
            return False
        return not self.until or order(release) <= order(self.until)

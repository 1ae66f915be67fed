"""`Behaviour`: a named difference between releases of Kubernetes."""

from __future__ import annotations

from dataclasses import dataclass

from cathedra.releases.table import order


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

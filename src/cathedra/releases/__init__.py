"""Contents of each release of Kubernetes: one package that a new release changes.

* `cathedra.releases.table`: the releases and their order;
* `cathedra.releases.history`: feature gates, in which release they enter which stage;
* `cathedra.releases.gates`: `FeatureGates`, the gates of one release with overrides, which is passed to all parts;
* `cathedra.releases.fields`: fields of API types that some releases lack;
* `cathedra.releases.served`: API versions that a release serves, deprecates and removes;
* `cathedra.releases.behaviours`, `cathedra.releases.classic`: what releases do differently, by name.
"""

from cathedra.releases.gates import FeatureGates, UnknownGate, parse_overrides, state_of
from cathedra.releases.history import GateState, Stage
from cathedra.releases.table import DEFAULT_RELEASE, NEWEST, RELEASES, UNRELEASED, Behaviour, git_version, order

__all__ = [
    "DEFAULT_RELEASE",
    "NEWEST",
    "RELEASES",
    "UNRELEASED",
    "Behaviour",
    "FeatureGates",
    "GateState",
    "Stage",
    "UnknownGate",
    "git_version",
    "order",
    "parse_overrides",
    "state_of",
]

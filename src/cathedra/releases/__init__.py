"""What each release of Kubernetes has: one package that a new release changes.

* `cathedra.releases.table`: the releases and their order;
* `cathedra.releases.history`: feature gates, in which release they enter which stage;
* `cathedra.releases.gates`: `FeatureGates`, the gates of one release with overrides, which is passed to all parts;
* `cathedra.releases.fields`: fields of API types that some releases lack.
"""

from cathedra.releases.gates import FeatureGates, UnknownGate, parse_overrides, state_of
from cathedra.releases.history import GateState, Stage
from cathedra.releases.table import NEWEST, RELEASES, order

__all__ = [
    "NEWEST",
    "RELEASES",
    "FeatureGates",
    "GateState",
    "Stage",
    "UnknownGate",
    "order",
    "parse_overrides",
    "state_of",
]

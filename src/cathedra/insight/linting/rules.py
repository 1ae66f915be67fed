"""The rules by name: what a finding is called in output, in comments that allow it, and in docs/lint.md."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

__all__ = ["RULES", "Level", "Rule"]

Level = Literal["error", "warning"]


class Rule(NamedTuple):
    """A rule: errors are refused by the server or fail for certain, warnings may be meant."""

    name: str
    level: Level
    summary: str


_ALL: Final = (
    Rule("broken-yaml", "error", "the document cannot be read"),
    Rule("unknown-field", "error", "a field that the version does not have, or has twice"),
    Rule("wrong-type", "error", "a value of the wrong type"),
    Rule("unknown-version", "error", "an API version that the release does not have"),
    Rule("invalid-object", "error", "the API server refuses the object"),
    Rule("all-with-count", "error", "allocationMode All together with a count"),
    Rule("cel-error", "error", "an expression that does not compile"),
    Rule("cel-cost", "warning", "an expression whose estimated cost is near the limit"),
    Rule("quantity-as-literal", "error", "a capacity compared with a text or a number"),
    Rule("attribute-as-quantity", "error", "an attribute used as if it were a capacity"),
    Rule("deprecated-version", "warning", "an API version that a later release takes away"),
    Rule("server-warning", "warning", "the API server accepts the object with a warning"),
    Rule("dropped-field", "warning", "a field that the release drops without a word"),
    Rule("unguarded-attribute", "warning", "an attribute that is read without a test for its presence"),
    Rule("unqualified-name", "warning", "an attribute or domain that is not named in full"),
    Rule("version-as-string", "warning", "a version compared as a text"),
    Rule("never-true", "warning", "conditions that exclude each other"),
    Rule("unused-claim", "warning", "a claim of a pod that no container uses"),
    Rule("unused-request", "warning", "a request of a claim that no container uses"),
    Rule("unknown-request", "error", "a container names a request that the claim does not have"),
    Rule("incomplete-pool", "warning", "a pool with fewer slices than it says"),
    Rule("duplicate-device", "error", "a device name that a pool has twice"),
    Rule("unused-counters", "warning", "a counter set or counter that no device consumes"),
    Rule("unknown-counters", "error", "a device consumes a counter that its pool does not have"),
    Rule("exceeding-counters", "error", "a device consumes more of a counter than there is"),
    Rule("unknown-class", "warning", "a device class that is not there"),
    Rule("unknown-claim", "warning", "a pod names a claim or template that is not there"),
    Rule("unknown-attribute", "warning", "an attribute or capacity that no device has"),
    Rule("wrong-attribute-type", "warning", "an attribute compared with a value of another type"),
    Rule("failing-selector", "warning", "a selector that fails on some device"),
    Rule("matches-nothing", "warning", "selectors that match no device"),
    Rule("unknown-rule", "warning", "a comment allows a rule that does not exist"),
)
RULES: Final = {rule.name: rule for rule in _ALL}

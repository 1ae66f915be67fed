"""The plugins of a profile that take part for one pod, and what each contributes without seeing a node.

Worked out for each pod, once per cycle: nothing is shared between pods here, since a plugin may read anything of a pod.
What pays is kept elsewhere, for each node until it changes: the results of predicates and scores, by their own keys
(`cathedra.scheduler.state.snapshot`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from cathedra.scheduler.framework.plugin import (
    FilterPlugin,
    NodePredicate,
    NodeScore,
    PreFilterPlugin,
    ScorePlugin,
)
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo

__all__ = ["PodPlugins", "all_of", "plugins_for"]


class PodPlugins(msgspec.Struct, frozen=True):
    """The plugins of one profile for one pod."""

    pre_filters: Sequence[tuple[int, PreFilterPlugin]]
    """Those that do not skip the pod, with their numbers among all."""
    skipped: frozenset[str]
    """The names of the others."""
    filters: Sequence[FilterPlugin]
    """The filters that are not skipped."""
    predicates: Mapping[FilterPlugin, NodePredicate]
    """The filters that have a predicate for the pod."""
    predicate: NodePredicate | None
    """The conjunction of all predicates; None if there are none."""
    scores: Sequence[ScorePlugin]
    """The plugins whose scores depend on more than the node, without those that are silent about the pod."""
    outspoken: Sequence[ScorePlugin]
    """Those among them that have no `silent_where`."""
    parts: Sequence[ScorePlugin]
    """The plugins that score each node by itself."""
    total: NodeScore | None
    """The weighted sum of the latter; None if there are none."""


def plugins_for(
    pod: PodInfo,
    pre_filters: Sequence[PreFilterPlugin],
    filters: Sequence[FilterPlugin],
    scores: Sequence[ScorePlugin],
    weights: Mapping[str, int],
) -> PodPlugins:
    """Ask each plugin what it does for ``pod``."""
    skipped = frozenset([plugin.name for plugin in pre_filters if plugin.skips(pod)])
    predicates = {plugin: one for plugin in filters if (one := plugin.predicate(pod)) is not None}
    scored = [(plugin, score) for plugin in scores if (score := plugin.node_score(pod)) is not None]
    parts = [plugin for plugin, _ in scored]
    others = [plugin for plugin in scores if plugin not in parts and not plugin.is_silent(pod)]
    return PodPlugins(
        pre_filters=[one for one in enumerate(pre_filters, start=1) if one[1].name not in skipped],
        skipped=skipped,
        filters=[plugin for plugin in filters if plugin.name not in skipped],
        predicates=predicates,
        predicate=all_of([(plugin.name, one) for plugin, one in predicates.items()]),
        scores=others,
        outspoken=[plugin for plugin in others if plugin.silent_where is None],
        parts=parts,
        total=_sum([(plugin.name, weights[plugin.name], score) for plugin, score in scored]),
    )


def all_of(named: Sequence[tuple[str, NodePredicate]]) -> NodePredicate | None:
    """Return the conjunction of plugins' predicates, each with its plugin's name; None if there are none."""
    if not named:
        return None
    predicates = [predicate for _, predicate in named]
    lacking = frozenset[str]().union(*[one.lacking for one in predicates])
    there = all_of([(name, one.there or one) for name, one in named]) if lacking else None
    # A plugin chooses its keys without knowing the others': its name keeps them apart.
    key = tuple([(name, one.key) for name, one in named])
    return NodePredicate(key, partial(_all_hold, predicates), lacking, there)


def _all_hold(predicates: Sequence[NodePredicate], node: NodeInfo) -> bool:
    return False not in [predicate.holds(node) for predicate in predicates]


def _sum(parts: Sequence[tuple[str, int, NodeScore]]) -> NodeScore | None:
    """The weighted sum of plugins' scores."""
    if not parts:
        return None
    key = tuple([(name, weight, score.key) for name, weight, score in parts])
    return NodeScore(key, partial(_weighted_sum, [(weight, score) for _, weight, score in parts]))


def _weighted_sum(parts: Sequence[tuple[int, NodeScore]], node: NodeInfo) -> int:
    total = 0
    for weight, score in parts:
        total += weight * score.of(node)
    return total

"""The plugins of a profile that take part for one pod, and what each contributes without seeing a node.

Worked out for each pod when it is needed: nothing is shared between pods here, since a plugin may read anything of a
pod. What pays is kept elsewhere, for each node until it changes: the results of predicates and scores, by their own
keys (`cathedra.scheduler.state.snapshot`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from cathedra.scheduler.framework.plugin import (
    FilterPlugin,
    NodePredicate,
    NodeScore,
    ScorePlugin,
)
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Given

_Predicate = tuple[Callable[..., bool], Given]
_Weighted = tuple[int, Callable[..., int], Given]
"""A weight and a score."""
_NONE: Final = frozenset[str]()


PodPredicates = tuple[Mapping[FilterPlugin, NodePredicate], NodePredicate | None]
"""The filters that have a predicate for one pod, and the conjunction of all predicates; None if there are none."""


class ProfilePlugins:
    """The plugins of one profile that may take part while nodes are filtered and scored."""

    def __init__(
        self,
        filters: Sequence[FilterPlugin],
        scores: Sequence[ScorePlugin],
        weights: Mapping[str, int],
    ) -> None:
        # This runs for every pod: plugins are not called for what their base class answers.
        self._with_predicate = [one for one in filters if type(one).predicate is not FilterPlugin.predicate]
        scoring = [one for one in scores if type(one).node_score is not ScorePlugin.node_score]
        self._scoring = [(weights[one.name], one) for one in scoring]
        others = [one for one in scores if one not in scoring]
        self._undecided = [one for one in others if type(one).scores_zero is not ScorePlugin.scores_zero]
        self._called = [one for one in others if one not in self._undecided]

    def predicates(self, pod: PodInfo) -> PodPredicates:
        """Return the predicates of the filters for ``pod``."""
        of_plugins: dict[FilterPlugin, NodePredicate] = {}
        for plugin in self._with_predicate:
            predicate = plugin.predicate(pod)
            if predicate is not None:
                of_plugins[plugin] = predicate
        return of_plugins, all_of(of_plugins.values())

    def scores(self, pod: PodInfo) -> tuple[Sequence[ScorePlugin], NodeScore | None, Sequence[ScorePlugin]]:
        """Return the plugins that score each node by itself for ``pod``; the weighted sum of their scores, None if
        there are none; and the plugins whose scores depend on more than the node, without those whose score for the pod
        is always zero."""
        others = [one for one in self._undecided if not one.scores_zero(pod)]
        parts: list[ScorePlugin] = []
        weighted: list[_Weighted] = []
        for weight, plugin in self._scoring:
            score = plugin.node_score(pod)
            if score is not None:
                parts.append(plugin)
                weighted.append((weight, score.of, score.given))
            elif not plugin.scores_zero(pod):
                others.append(plugin)
        total = NodeScore(_weighted_sum, (tuple(weighted),)) if parts else None
        # The order of plugins whose scores are added does not matter.
        return parts, total, [*self._called, *others] if others else self._called


def all_of(predicates: Collection[NodePredicate]) -> NodePredicate | None:
    """Return the conjunction of predicates; None if there are none."""
    if not predicates:
        return None
    lacking = _NONE
    parts: list[_Predicate] = []
    for one in predicates:
        parts.append((one.of, one.given))
        if one.lacking:
            lacking |= one.lacking
    there = all_of([one.there or one for one in predicates]) if lacking else None
    return NodePredicate(_all_hold, (tuple(parts),), lacking, there)


def _all_hold(predicates: Iterable[_Predicate], node: NodeInfo) -> bool:
    for holds, given in predicates:  # noqa: SIM110  # a generator costs as much as two predicates
        if not holds(*given, node):
            return False
    return True


def _weighted_sum(parts: Iterable[_Weighted], node: NodeInfo) -> int:
    total = 0
    for weight, score, given in parts:
        total += weight * score(*given, node)
    return total

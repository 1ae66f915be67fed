"""The plugins of a profile that take part for one pod, and what each contributes without seeing a node.

Worked out for each pod when it is needed: nothing is shared between pods here, since a plugin may read anything of a
pod. What pays is kept elsewhere, for each node until it changes: the results of predicates and scores, by their own
keys (`cathedra.scheduler.state.snapshot`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from cathedra.scheduler.framework.plugin import (
    FilterPlugin,
    NodePredicate,
    NodeScore,
    Plugin,
    ScorePlugin,
)
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo

P = TypeVar("P", bound=Plugin)

_NONE: Final = frozenset[str]()


class PodPredicates(msgspec.Struct, frozen=True, gc=False):
    """The predicates of a profile's filters for one pod."""

    of_plugins: Mapping[FilterPlugin, NodePredicate]
    """The filters that have a predicate for the pod."""
    all: NodePredicate | None
    """The conjunction of all predicates; None if there are none."""


class PodScores(msgspec.Struct, frozen=True, gc=False):
    """The plugins of a profile that may score nodes for one pod."""

    called: Sequence[ScorePlugin]
    """Plugins whose scores depend on more than the node, without those whose score for the pod is always zero."""
    unconditional: Sequence[ScorePlugin]
    """Those of ``called`` that have no `zero_where`."""
    parts: Sequence[ScorePlugin]
    """The plugins that score each node by itself."""
    total: NodeScore | None
    """The weighted sum of the latter; None if there are none."""


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
        depending = [one for one in scores if _depends_on_pod(type(one))]
        self._depending = [(one.name, weights[one.name], one) for one in depending]
        self._called = [one for one in scores if one not in depending]
        self._unconditional = _without_condition(self._called)

    def predicates(self, pod: PodInfo) -> PodPredicates:
        """Return the predicates of the filters for ``pod``."""
        of_plugins: dict[FilterPlugin, NodePredicate] = {}
        for plugin in self._with_predicate:
            predicate = plugin.predicate(pod)
            if predicate is not None:
                of_plugins[plugin] = predicate
        return PodPredicates(of_plugins, all_of(of_plugins))

    def scores(self, pod: PodInfo) -> PodScores:
        """Return the plugins that may score nodes for ``pod``."""
        parts: list[ScorePlugin] = []
        others: list[ScorePlugin] = []
        key: list[Hashable] = []
        weighted: list[tuple[int, Callable[[NodeInfo], int]]] = []
        for name, weight, plugin in self._depending:
            score = plugin.node_score(pod)
            if score is not None:
                parts.append(plugin)
                key.append((name, weight, score.key))
                weighted.append((weight, score.of))
            elif not plugin.scores_zero(pod):
                others.append(plugin)
        total = NodeScore(tuple(key), partial(_weighted_sum, weighted)) if parts else None
        if not others:
            return PodScores(self._called, self._unconditional, parts, total)
        # The order of plugins whose scores are added does not matter.
        called = [*self._called, *others]
        return PodScores(called, _without_condition(called), parts, total)


def _depends_on_pod(kind: type[ScorePlugin]) -> bool:
    """Return True if plugins of a kind may score nodes by themselves or have no opinion, depending on the pod."""
    return kind.node_score is not ScorePlugin.node_score or kind.scores_zero is not ScorePlugin.scores_zero


def _without_condition(plugins: Sequence[ScorePlugin]) -> Sequence[ScorePlugin]:
    return [one for one in plugins if one.zero_where is None]


def all_of(predicates: Mapping[P, NodePredicate]) -> NodePredicate | None:
    """Return the conjunction of the predicates of plugins; None if there are none."""
    if not predicates:
        return None
    lacking = _NONE
    key: list[Hashable] = []
    holds: list[Callable[[NodeInfo], bool]] = []
    for plugin, one in predicates.items():
        # A plugin chooses its keys without knowing the others': its name keeps them apart.
        key.append((plugin.name, one.key))
        holds.append(one.holds)
        if one.lacking:
            lacking |= one.lacking
    there = all_of({plugin: one.there or one for plugin, one in predicates.items()}) if lacking else None
    return NodePredicate(tuple(key), partial(_all_hold, holds), lacking, there)


def _all_hold(predicates: Sequence[Callable[[NodeInfo], bool]], node: NodeInfo) -> bool:
    for holds in predicates:  # noqa: SIM110  # a generator costs as much as two predicates
        if not holds(node):
            return False
    return True


def _weighted_sum(parts: Sequence[tuple[int, Callable[[NodeInfo], int]]], node: NodeInfo) -> int:
    total = 0
    for weight, score in parts:
        total += weight * score(node)
    return total

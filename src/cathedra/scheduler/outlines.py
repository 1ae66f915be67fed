"""What the plugins say of a pod before they look at any node, once for all pods that ask for the same.

Pods of one template differ in nothing that decides on their nodes. So which plugins have something to say about such
pods, and what makes nodes pass and what they score as far as that is told node by node, is found out for the first of
them (`PodInfo.outline`); plugins promise with each of these answers that it holds for all.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Final

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

__all__ = ["Outline", "Outlines", "together"]

LIMIT: Final = 64
"""So many sorts of pods are remembered; the oldest gives way."""


class Outline(msgspec.Struct, frozen=True):
    """The answers of one profile's plugins to one sort of pods."""

    pre_filters: Sequence[tuple[int, PreFilterPlugin]]
    """Those that do not skip every pod of this sort, with their numbers among all."""
    skipped: frozenset[str]
    """The names of the others."""
    filters: Sequence[FilterPlugin]
    """Those that are not skipped by all pods of this sort."""
    predicates: Mapping[FilterPlugin, NodePredicate]
    """The filters that have a predicate."""
    predicate: NodePredicate | None
    """That all of these hold; None if there are none."""
    scores: Sequence[ScorePlugin]
    """The plugins whose scores are told by more than the node, without those that are silent about such pods."""
    outspoken: Sequence[ScorePlugin]
    """Those among them that have no `silent_where`."""
    parts: Sequence[ScorePlugin]
    """The plugins that score each node by itself."""
    total: NodeScore | None
    """The weighted sum of the latter; None if there are none."""


class Outlines:
    """The outlines of one profile."""

    def __init__(
        self,
        pre_filters: Sequence[PreFilterPlugin],
        filters: Sequence[FilterPlugin],
        scores: Sequence[ScorePlugin],
        weights: Mapping[str, int],
    ) -> None:
        self._pre_filters = tuple(enumerate(pre_filters, start=1))
        self._filters = filters
        self._scores = scores
        self._weights = weights
        self._varying = [plugin for plugin in filters if type(plugin).variety is not FilterPlugin.variety]
        self._known: dict[Hashable, Outline] = {}

    def of(self, pod: PodInfo) -> Outline:
        """The outline of ``pod``; pods that want something of nodes or other pods have one of their own."""
        key = None if pod.pod.spec.node_name else pod.outline
        if key is None:
            return self._make(pod)
        if pod.qualified:
            key = (key, *[plugin.variety(pod) for plugin in self._varying])
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= LIMIT:
                del self._known[next(iter(self._known))]
            found = self._known[key] = self._make(pod)
        return found

    def _make(self, pod: PodInfo) -> Outline:
        skipped = frozenset([plugin.name for _, plugin in self._pre_filters if plugin.skips(pod)])
        predicates = {plugin: one for plugin in self._filters if (one := plugin.predicate(pod)) is not None}
        scored = {plugin: score for plugin in self._scores if (score := plugin.node_score(pod)) is not None}
        scores = [plugin for plugin in self._scores if plugin not in scored and not plugin.is_silent(pod)]
        return Outline(
            pre_filters=[(number, plugin) for number, plugin in self._pre_filters if plugin.name not in skipped],
            skipped=skipped,
            filters=[plugin for plugin in self._filters if plugin.name not in skipped],
            predicates=predicates,
            predicate=together(list(predicates.values())),
            scores=scores,
            outspoken=[plugin for plugin in scores if plugin.silent_where is None],
            parts=list(scored),
            total=_sum([(self._weights[plugin.name], score) for plugin, score in scored.items()]),
        )


def together(predicates: Sequence[NodePredicate]) -> NodePredicate | None:
    """That all of ``predicates`` hold; None if there are none."""
    if not predicates:
        return None
    lacking = frozenset[str]().union(*[one.lacking for one in predicates])
    there = together([one.there or one for one in predicates]) if lacking else None
    return NodePredicate(tuple([one.key for one in predicates]), partial(_all_hold, predicates), lacking, there)


def _all_hold(predicates: Sequence[NodePredicate], node: NodeInfo) -> bool:
    return False not in [predicate.holds(node) for predicate in predicates]


def _sum(weighted: Sequence[tuple[int, NodeScore]]) -> NodeScore | None:
    """The weighted sum of scores."""
    if not weighted:
        return None
    return NodeScore(tuple([(weight, score.key) for weight, score in weighted]), partial(_weighted_sum, weighted))


def _weighted_sum(parts: Sequence[tuple[int, NodeScore]], node: NodeInfo) -> int:
    total = 0
    for weight, score in parts:
        total += weight * score.of(node)
    return total

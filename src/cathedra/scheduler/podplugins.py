"""The plugins of a profile that take part for one pod, and what each contributes without seeing a node.

Worked out for each pod, once per cycle: nothing is shared between pods here, since a plugin may read anything of a pod.
What pays is kept elsewhere, for each node until it changes: the results of predicates and scores, by their own keys
(`cathedra.scheduler.state.snapshot`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import compress, filterfalse
from operator import attrgetter, not_
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

_NONE: Final = frozenset[str]()


class PodPlugins(msgspec.Struct, frozen=True, gc=False):
    """The plugins of one profile for one pod."""

    pre_filters: Sequence[tuple[int, PreFilterPlugin]]
    """PreFilter plugins that do not skip the pod, with their indexes among all."""
    skipped: frozenset[str]
    """The names of the others."""
    filters: Sequence[FilterPlugin]
    """The filters that are not skipped."""
    predicates: Mapping[FilterPlugin, NodePredicate]
    """The filters that have a predicate for the pod."""
    predicate: NodePredicate | None
    """The conjunction of all predicates; None if there are none."""
    scores: Sequence[ScorePlugin]
    """Plugins whose scores depend on more than the node, without those whose score for the pod is always zero."""
    unconditional: Sequence[ScorePlugin]
    """Those of ``scores`` that have no `zero_where`."""
    parts: Sequence[ScorePlugin]
    """The plugins that score each node by itself."""
    total: NodeScore | None
    """The weighted sum of the latter; None if there are none."""


class ProfilePlugins:
    """The plugins of one profile that may take part before and while nodes are filtered and scored."""

    def __init__(
        self,
        pre_filters: Sequence[PreFilterPlugin],
        filters: Sequence[FilterPlugin],
        scores: Sequence[ScorePlugin],
        weights: Mapping[str, int],
    ) -> None:
        self._pre_filters = tuple(enumerate(pre_filters, start=1))
        self._pre_filter_names = [plugin.name for plugin in pre_filters]
        self._filters = filters
        self._filter_names = [plugin.name for plugin in filters]
        self._scores = scores
        self._weights = weights
        # This runs for every pod: plugins are not called for what their base class answers.
        self._skipping = [one for one in pre_filters if type(one).skips is not PreFilterPlugin.skips]
        self._with_predicate = [one for one in filters if type(one).predicate is not FilterPlugin.predicate]
        self._scoring_nodes = [one for one in scores if type(one).node_score is not ScorePlugin.node_score]
        self._unconditional = frozenset([one for one in scores if one.zero_where is None])
        self._may_be_zero = [one for one in scores if type(one).scores_zero is not ScorePlugin.scores_zero]

    def for_pod(self, pod: PodInfo) -> PodPlugins:
        """Return the plugins that take part for ``pod``."""
        skipped = frozenset([plugin.name for plugin in self._skipping if plugin.skips(pod)])
        predicates = {plugin: its for plugin in self._with_predicate if (its := plugin.predicate(pod)) is not None}
        parts = {plugin: score for plugin in self._scoring_nodes if (score := plugin.node_score(pod)) is not None}
        zero = {plugin for plugin in self._may_be_zero if plugin not in parts and plugin.scores_zero(pod)}
        # This is done for each pod and each of some twenty plugins, so without a step of Python for each.
        scores = list(filterfalse((parts.keys() | zero).__contains__, self._scores))
        is_skipped = skipped.__contains__
        return PodPlugins(
            pre_filters=list(compress(self._pre_filters, map(not_, map(is_skipped, self._pre_filter_names)))),
            skipped=skipped,
            filters=list(compress(self._filters, map(not_, map(is_skipped, self._filter_names)))),
            predicates=predicates,
            predicate=all_of([(plugin.name, one) for plugin, one in predicates.items()]),
            scores=scores,
            unconditional=list(filter(self._unconditional.__contains__, scores)),
            parts=list(parts),
            total=self._sum(parts) if parts else None,
        )

    def _sum(self, parts: Mapping[ScorePlugin, NodeScore]) -> NodeScore:
        """The weighted sum of scores."""
        weighted = [(self._weights[plugin.name], score) for plugin, score in parts.items()]
        key = tuple([(plugin.name, self._weights[plugin.name], score.key) for plugin, score in parts.items()])
        return NodeScore(key, partial(_weighted_sum, weighted))


def all_of(named: Sequence[tuple[str, NodePredicate]]) -> NodePredicate | None:
    """Return the conjunction of plugins' predicates, each with its plugin's name; None if there are none."""
    if not named:
        return None
    names, predicates = zip(*named, strict=True)
    lacking = _NONE.union(*map(_lacking, predicates))
    there = all_of([(name, one.there or one) for name, one in named]) if lacking else None
    # A plugin chooses its keys without knowing the others': its name keeps them apart.
    return NodePredicate((names, *map(_key, predicates)), partial(_all_hold, predicates), lacking, there)


_key: Final = attrgetter("key")
_lacking: Final = attrgetter("lacking")


def _all_hold(predicates: Sequence[NodePredicate], node: NodeInfo) -> bool:
    for predicate in predicates:  # noqa: SIM110  # a generator costs as much as two predicates
        if not predicate.holds(node):
            return False
    return True


def _weighted_sum(parts: Sequence[tuple[int, NodeScore]], node: NodeInfo) -> int:
    total = 0
    for weight, score in parts:
        total += weight * score.of(node)
    return total

"""Profiles change the default plugins as kube-scheduler merges them."""

from __future__ import annotations

import pytest

from cathedra.scheduler.configuration.document import PluginRef, Plugins, PluginSet
from cathedra.scheduler.configuration.enablement import DEFAULT_PLUGINS, EnablementError, enabled


def refs(*names: str) -> list[PluginRef]:
    return [PluginRef(name) for name in names]


def test_without_changes_all_take_part_in_kubernetes_order() -> None:
    found = enabled(Plugins())
    assert found.plugins() <= set(DEFAULT_PLUGINS)
    assert found.points["postFilter"] == ("DynamicResources", "DefaultPreemption")
    assert found.weights["TaintToleration"] == 3
    assert found.weights["PodTopologySpread"] == 2


def test_a_plugin_enabled_again_keeps_its_place_and_gets_its_weight() -> None:
    changed = enabled(Plugins(multi_point=PluginSet(enabled=[PluginRef("TaintToleration", 7)])))
    assert changed.points == enabled(Plugins()).points
    assert changed.weights["TaintToleration"] == 7


def test_a_score_of_its_own_has_its_own_weight_and_comes_first() -> None:
    changed = enabled(Plugins(score=PluginSet(enabled=[PluginRef("ImageLocality", 9)])))
    assert changed.points["score"][0] == "ImageLocality"
    assert changed.weights["ImageLocality"] == 9


def test_a_star_disables_everything_that_is_not_enabled_beside_it() -> None:
    score = PluginSet(enabled=refs("NodeResourcesFit"), disabled=refs("*"))
    changed = enabled(Plugins(score=score, pre_score=score))
    assert changed.points["score"] == ("NodeResourcesFit",)
    assert changed.points["filter"] == enabled(Plugins()).points["filter"]


def test_a_plugin_disabled_everywhere_takes_part_nowhere() -> None:
    changed = enabled(Plugins(multi_point=PluginSet(disabled=refs("DynamicResources"))))
    assert "DynamicResources" not in changed.plugins()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (Plugins(filter=PluginSet(enabled=refs("ImageLocality"))), "does not extend filter plugin"),
        (Plugins(multi_point=PluginSet(enabled=refs("Foo"))), 'multiPoint: plugin "Foo" does not exist'),
        (Plugins(bind=PluginSet(disabled=refs("*"))), "at least one bind plugin is needed"),
        (Plugins(queue_sort=PluginSet(disabled=refs("*"))), "one queue sort plugin required"),
        (Plugins(filter=PluginSet(enabled=refs("NodeName", "NodeName"))), 'already registered as "filter"'),
        (Plugins(reserve=PluginSet(disabled=refs("DynamicResources"))), "takes part at all of"),
        (Plugins(pre_filter=PluginSet(disabled=refs("NodePorts"))), "enable or disable it at both"),
    ],
)
def test_combinations_that_cannot_work_are_refused(changes: Plugins, text: str) -> None:
    with pytest.raises(EnablementError, match=text):
        enabled(changes)


@pytest.mark.parametrize(
    "point", ["placement_generate", "placement_feasible", "placement_score", "pod_group_post_filter"]
)
def test_extension_points_of_pod_groups_are_known_and_have_no_plugin(point: str) -> None:
    off = Plugins(**{point: PluginSet(disabled=refs("*"))})
    assert enabled(off) == enabled(Plugins())
    with pytest.raises(EnablementError, match="does not extend"):
        enabled(Plugins(**{point: PluginSet(enabled=refs("DefaultPreemption"))}))

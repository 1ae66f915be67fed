"""The file either has its effect or is refused in one line with the position of the fault."""

from __future__ import annotations

import pytest

from cathedra.scheduler.configuration.reading import (
    DEFAULT_CONFIGURATION,
    ConfigurationError,
    SchedulerConfiguration,
    read_configuration,
)

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def read(body: str = "") -> SchedulerConfiguration:
    return read_configuration(HEAD + body)


def test_an_empty_file_is_the_default() -> None:
    assert read() == DEFAULT_CONFIGURATION


def test_profiles_have_names_percentages_and_arguments() -> None:
    found = read(
        """
percentageOfNodesToScore: 40
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
leaderElection: {leaderElect: true, resourceName: second-scheduler, leaseDuration: 1m0s}
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  percentageOfNodesToScore: 70
  pluginConfig:
  - name: NodeResourcesFit
    args: {ignoredResources: [example.com/foo], scoringStrategy: {type: MostAllocated}}
"""
    )
    first, second = found.profiles
    assert (first.name, first.percentage_of_nodes_to_score) == ("default-scheduler", 40)
    assert (second.name, second.percentage_of_nodes_to_score) == ("packing", 70)
    assert second.ignored_resources == {"example.com/foo"}
    assert (found.initial_backoff, found.max_backoff) == (2.0, 20.0)
    assert (found.lease.elect, found.lease.name, found.lease.duration) == (True, "second-scheduler", 60.0)


def test_timeouts_of_dynamic_resources_are_go_durations() -> None:
    args = "args: {filterTimeout: 2s500ms, bindingTimeout: 10m}"
    profile = read(f"profiles: [{{pluginConfig: [{{name: DynamicResources, {args}}}]}}]").profiles[0]
    assert (profile.filter_timeout, profile.binding_timeout) == (2.5, 600.0)


def test_plugins_get_their_arguments() -> None:
    term = "{matchExpressions: [{key: disk, operator: Exists}]}"
    required = f"{{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{term}]}}}}"
    constraint = "{maxSkew: 2, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}"
    found = read(
        "profiles: [{pluginConfig: ["
        "{name: InterPodAffinity, args: {hardPodAffinityWeight: 5, ignorePreferredTermsOfExistingPods: true}}, "
        f"{{name: NodeAffinity, args: {{addedAffinity: {required}}}}}, "
        f"{{name: PodTopologySpread, args: {{defaultingType: List, defaultConstraints: [{constraint}]}}}}, "
        "{name: DefaultPreemption, args: {minCandidateNodesPercentage: 20, minCandidateNodesAbsolute: 5}}]}]"
    ).profiles[0]
    assert (found.hard_affinity_weight, found.ignores_wishes_of_others) == (5, True)
    assert found.added_affinity is not None
    assert found.added_affinity.required_during_scheduling_ignored_during_execution is not None
    assert [(one.topology_key, one.max_skew) for one in found.default_constraints or ()] == [("rack", 2)]
    assert (found.candidate_percentage, found.fewest_candidates) == (20, 5)
    plain = read("profiles: [{}]").profiles[0]
    assert (plain.added_affinity, plain.default_constraints) == (None, None)


def test_volume_plugins_may_be_named_and_are_reported() -> None:
    found = read("profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 5}}]}]")
    assert found.without_effect == ("VolumeBinding",)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("profils: []", 'strict decoding error: unknown field "profils"'),
        (
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoring: 1}}]}]",
            "strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for "
            'plugin NodeResourcesFit: strict decoding error: unknown field "scoring"',
        ),
        (
            "parallelism: many",
            "json: cannot unmarshal string into Go struct field KubeSchedulerConfiguration.parallelism of type int32",
        ),
        (
            "profiles: [{plugins: {score: {enabled: [{name: 5}]}}}]",
            "json: cannot unmarshal number into Go struct field Plugin.profiles.plugins.score.enabled.name "
            "of type string",
        ),
        (
            "profiles: {}",
            "json: cannot unmarshal object into Go struct field KubeSchedulerConfiguration.profiles "
            "of type []v1.KubeSchedulerProfile",
        ),
        (
            "leaderElection: {leaderElect: 'yes'}",
            "json: cannot unmarshal string into Go struct field "
            "LeaderElectionConfiguration.leaderElection.leaderElect of type bool",
        ),
        (
            "podMaxBackoffSeconds: 1.5",
            "json: cannot unmarshal number 1.5 into Go struct field "
            "KubeSchedulerConfiguration.podMaxBackoffSeconds of type int64",
        ),
        (
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: cpu}}]}]",
            "decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeResourcesFit: json: cannot unmarshal "
            "string into Go struct field NodeResourcesFitArgs.ignoredResources of type []string",
        ),
        (
            "profiles: [{pluginConfig: [{name: NodeAffinity, args: "
            "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: []}}}]}]",
            "json: cannot unmarshal array into Go struct field "
            "NodeAffinity.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution of type v1.NodeSelector",
        ),
        ("zeta: 1\nalpha: 2", 'strict decoding error: unknown field "alpha", unknown field "zeta"'),
        ("parallelism: 0", "parallelism: Invalid value: 0: should be an integer value greater than zero"),
        ("percentageOfNodesToScore: 101", "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"),
        ("podInitialBackoffSeconds: 0", "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"),
        ("podMaxBackoffSeconds: -1", "must be greater than or equal to PodInitialBackoffSeconds"),
        ("leaderElection: {resourceLock: configmaps}", 'resourceLock value must be "leases"'),
        ("leaderElection: {leaseDuration: 5s}", "LeaseDuration must be greater than RenewDeadline"),
        ("leaderElection: {retryPeriod: soon}", 'time: invalid duration "soon"'),
        ("extenders: [{urlPrefix: http://127.0.0.1}]", "extenders: Forbidden: this scheduler has no extenders"),
        ("profiles: [{schedulerName: a}, {schedulerName: a}]", 'profiles[1].schedulerName: Duplicate value: "a"'),
        ("profiles: [{schedulerName: ''}]", "profiles[0].schedulerName: Required value"),
        ("profiles: [{plugins: {score: {enabled: [{name: Foo}]}}}]", 'score plugin "Foo" does not exist'),
        ("profiles: [{pluginConfig: [{name: Foo}]}]", 'pluginConfig[0].name: Invalid value: "Foo"'),
        ("profiles: [{pluginConfig: [{name: NodeName}]}]", "Forbidden: NodeName takes no arguments"),
        (
            "profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, "
            "args: {resources: [{name: cpu, weight: 1}]}}]}]",
            "this scheduler runs NodeResourcesBalancedAllocation with its default arguments only",
        ),
        ("parallelism: 1\nparallelism: 2", 'key "parallelism" already set in map'),
        (
            "profiles: [{schedulerName: a}, {schedulerName: b, pluginConfig: "
            "[{name: DynamicResources, args: {bindingTimeout: 1s}}]}]",
            "DynamicResources has the same filterTimeout and bindingTimeout in all profiles",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(body: str, text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read(body)
    assert text in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "kind: KubeSchedulerConfiguration", "apiVersion: v1\nkind: Pod", "a: ["])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        read_configuration(text)

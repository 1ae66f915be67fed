"""Admission is measured under Kubernetes' names."""

from __future__ import annotations

import asyncio

import pytest

from cathedra.api.field import ErrorList
from cathedra.api.status import StatusError, invalid
from cathedra.apiserver.admission.metrics import AdmissionMetrics
from cathedra.exposition import text_of


class Ticking:
    """A clock that advances by one second at each reading."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 1
        return self.seconds


def shown(metrics: AdmissionMetrics) -> list[str]:
    return [line for line in text_of(metrics.families()).decode().splitlines() if "_bucket" not in line]


async def test_steps_are_measured_and_plugins_in_one_step_of_ten() -> None:
    metrics = AdmissionMetrics(Ticking())

    def refused(_: float) -> None:
        raise invalid("", "Pod", "a", ErrorList())

    measure = metrics.measure("admit", "CREATE")
    await measure("LimitRanger", asyncio.sleep, 0)
    with pytest.raises(StatusError):
        await measure("PodSecurity", refused, 0)
    metrics.step_ended(0, "admit", "CREATE", rejected="true")
    assert [metrics.is_due() for _ in range(11)] == [True, *([False] * 9), True]
    lines = shown(metrics)
    step, plugin = "apiserver_admission_step_admission", "apiserver_admission_controller_admission"
    assert f'{step}_duration_seconds_sum{{operation="CREATE",rejected="true",type="admit"}} 5' in lines
    for name, rejected in (("LimitRanger", "false"), ("PodSecurity", "true")):
        labels = f'name="{name}",operation="CREATE",rejected="{rejected}",type="admit"'
        assert f"{plugin}_duration_seconds_sum{{{labels}}} 1" in lines


def test_calls_of_webhooks_are_counted_by_code_up_to_600() -> None:
    metrics = AdmissionMetrics()
    metrics.called("a", "validating", "UPDATE", 0.1, 999)
    metrics.rejected("a", "validating", "UPDATE", "no_error", 999)
    metrics.failed_open("a", "validating")
    lines = shown(metrics)
    hook = 'name="a",operation="UPDATE"'
    total = "apiserver_admission_webhook_request_total"
    assert f'{total}{{code="600",{hook},rejected="true",type="validating"}} 1' in lines
    count = "apiserver_admission_webhook_rejection_count"
    assert f'{count}{{error_type="no_error",{hook},rejection_code="600",type="validating"}} 1' in lines
    assert 'apiserver_admission_webhook_fail_open_count{name="a",type="validating"} 1' in lines


def test_decisions_of_policies_are_counted_by_action() -> None:
    metrics = AdmissionMetrics()
    metrics.checked("p", "b", "no_error", "deny")
    total = "apiserver_validating_admission_policy_check_total"
    labels = 'enforcement_action="deny",error_type="no_error",policy="p",policy_binding="b"'
    assert f"{total}{{{labels}}} 1" in shown(metrics)

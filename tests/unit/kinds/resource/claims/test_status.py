"""Rules of a claim's status."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api import resource
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.resource.claims.status import validate_status_update
from tests.unit.kinds.objects import claim, context, created, definition_of, texts, updated

RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"}
REPORT = {"driver": "gpu.example.com", "pool": "p", "device": "d"}
POD = {"resource": "pods", "name": "p", "uid": "1"}


def reported(
    status: dict[str, Any], before: dict[str, Any] | None = None, release: str = "1.37"
) -> tuple[resource.ResourceClaim, list[str]]:
    request = context(release)
    old, errors = created(definition_of("resourceclaims", release).strategy, claim(), request)
    assert errors == []
    old = replace(old, status=from_dict(resource.ResourceClaimStatus, before or {}))
    new = replace(old, status=from_dict(resource.ResourceClaimStatus, status))
    made, errors = updated(definition_of("resourceclaims", release).subresources["status"], new, old, request)
    return made, texts(errors)


def allocated(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"allocation": {"devices": {"results": list(results or (RESULT,))}}, **more}


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (allocated(reservedFor=[POD], devices=[REPORT]), []),
        ({"reservedFor": [POD]}, ["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"]),
        (
            allocated(reservedFor=[POD, POD]),
            ['status.reservedFor[1]: Duplicate value: {"resource":"pods","name":"p","uid":"1"}'],
        ),
        (
            allocated(devices=[{**REPORT, "device": "z"}]),
            [
                'status.devices[0]: Invalid value: {"Driver":"gpu.example.com","Pool":"p","Device":"z","ShareID":""}: '
                "must be an allocated device in the claim"
            ],
        ),
        (
            allocated({**RESULT, "request": "z"}),
            [
                'status.allocation.devices.results[0].request: Invalid value: "z": must be the name of a request in '
                "the claim or the name of a request and a subrequest separated by '/'"
            ],
        ),
    ],
)
def test_a_status_is_checked(status: dict[str, Any], wanted: list[str]) -> None:
    assert reported(status)[1] == wanted


def test_complaints_come_device_by_device_before_what_holds_for_the_claim() -> None:
    found = reported({"reservedFor": [POD], "devices": [REPORT]})[1]
    assert [text.split(":")[0] for text in found] == ["status.devices[0]", "status.reservedFor"]


def test_an_allocation_is_replaced_by_nothing_but_its_end() -> None:
    assert reported(allocated({**RESULT, "device": "e"}), allocated())[1][0].startswith("status.allocation: Invalid")
    made, errors = reported({}, allocated(devices=[REPORT]))
    assert (errors, made.status.devices) == ([], ())


def test_reports_of_deallocated_devices_are_forgotten() -> None:
    made, errors = reported({"devices": [REPORT]}, allocated(devices=[REPORT]))
    assert (errors, made.status.devices) == ([], ())


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("192.0.2.5/24", []),
        ("2001:db8::5/64", []),
        ("192.0.2.05/24", ["192.0.2.5/24"]),
        ("2001:DB8::5/64", ["2001:db8::5/64"]),
        ("192.0.2.5", ["must be a valid address in CIDR form"]),
    ],
)
def test_addresses_of_devices_are_canonical(address: str, wanted: list[str]) -> None:
    found = reported(allocated(devices=[{**REPORT, "networkData": {"ips": [address]}}]))[1]
    assert len(found) == len(wanted)
    assert all(part in text for part, text in zip(wanted, found, strict=True))


def test_addresses_of_132_may_be_spelled_in_any_way_but_only_once() -> None:
    def reported_in(release: str, *addresses: str) -> list[str]:
        after = allocated(devices=[{**REPORT, "networkData": {"ips": list(addresses)}}])
        old = replace(claim(), status=from_dict(resource.ResourceClaimStatus, allocated()))
        new = replace(old, status=from_dict(resource.ResourceClaimStatus, after))
        return texts(validate_status_update(new, old, context(release)))

    assert reported_in("1.32", "192.0.2.05/24", "2001:DB8::5/64") == []
    assert reported_in("1.32", "2001:db8::5/64", "2001:DB8:0::5/64") == [
        'status.devices[0].networkData.ips[1]: Duplicate value: "2001:db8::5/64"'
    ]
    (error,) = reported_in("1.32", "192.0.2.5")
    assert error.endswith("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")
    assert len(reported_in("1.33", "192.0.2.05/24")) == 1


# --- each part of a status

PATH = "status.allocation.devices"


def one(found: list[str], wanted: str) -> None:
    (text,) = found
    assert text.startswith(wanted), text


def test_consumers_say_what_they_are() -> None:
    assert reported(allocated(reservedFor=[{"resource": "", "name": "", "uid": ""}]))[1] == [
        "status.reservedFor[0].resource: Required value",
        "status.reservedFor[0].name: Required value",
        "status.reservedFor[0].uid: Required value",
    ]


def test_a_claim_is_reserved_for_256_consumers_at_most() -> None:
    def reserved(count: int) -> list[str]:
        return reported(allocated(reservedFor=[{**POD, "uid": str(n)} for n in range(count)]))[1]

    assert reserved(256) == []
    assert reserved(257) == ["status.reservedFor: Too many: 257: must have at most 256 items"]


def test_a_claim_that_is_being_deleted_gains_no_consumers() -> None:
    request = context()
    old, _ = created(definition_of("resourceclaims").strategy, claim(), request)
    metadata = from_dict(resource.ResourceClaim, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}).metadata
    before = from_dict(resource.ResourceClaimStatus, allocated(reservedFor=[POD]))
    old = replace(old, metadata=metadata, status=before)

    def reserve(*consumers: dict[str, str]) -> list[str]:
        status = from_dict(resource.ResourceClaimStatus, allocated(reservedFor=list(consumers)))
        strategy = definition_of("resourceclaims").subresources["status"]
        return texts(updated(strategy, replace(old, status=status), old, request)[1])

    assert reserve(POD) == reserve() == []
    one(reserve(POD, {**POD, "uid": "2"}), "status.reservedFor: Forbidden: new entries may not be added while")


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        ({"driver": ""}, "results[0].driver: Required value"),
        ({"pool": ""}, "results[0].pool: Required value"),
        ({"device": "A"}, 'results[0].device: Invalid value: "A"'),
        ({"shareID": "1"}, 'results[0].shareID: Invalid value: "1"'),
        ({"bindingConditions": ["A"]}, "results[0].bindingFailureConditions: Invalid value: null"),
    ],
)
def test_a_result_names_a_device(result: dict[str, Any], wanted: str) -> None:
    one(reported(allocated({**RESULT, **result}))[1], f"{PATH}.{wanted}")


def test_an_allocation_has_32_results_at_most() -> None:
    one(reported(allocated(*[RESULT] * 33))[1], f"{PATH}.results: Too many: 33: must have at most 32 items")


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"source": "FromClass"}, "config[0].opaque: Required value"),
        ({"source": ""}, "config[0].source: Required value"),
        ({"source": "FromPod"}, 'config[0].source: Unsupported value: "FromPod": supported values: "FromClaim", "Fr'),
        ({"source": "FromClaim", "requests": ["z"]}, 'config[0].requests[0]: Invalid value: "z"'),
    ],
)
def test_configuration_says_where_it_comes_from(config: dict[str, Any], wanted: str) -> None:
    complete = {} if "opaque" in wanted else {"opaque": {"driver": "d", "parameters": {}}}
    allocation = {"devices": {"results": [RESULT], "config": [{**complete, **config}]}}
    one(reported({"allocation": allocation})[1], f"{PATH}.{wanted}")


def test_an_allocation_has_64_configurations_at_most() -> None:
    config = {"source": "FromClaim", "opaque": {"driver": "d", "parameters": {}}}
    allocation = {"devices": {"results": [RESULT], "config": [config] * 65}}
    one(reported({"allocation": allocation})[1], f"{PATH}.config: Too many: 65: must have at most 64 items")


def test_the_nodes_of_an_allocation_are_checked() -> None:
    allocation = {"devices": {"results": [RESULT]}, "nodeSelector": {"nodeSelectorTerms": []}}
    one(reported({"allocation": allocation})[1], "status.allocation.nodeSelector.nodeSelectorTerms: Required value")


@pytest.mark.parametrize(
    ("report", "wanted"),
    [
        ({"data": 1}, 'data: Invalid value: "<value omitted>"'),
        (
            {"networkData": {"interfaceName": "x" * 257}},
            "networkData.interfaceName: Too long: may not be more than 256",
        ),
        (
            {"networkData": {"hardwareAddress": "x" * 129}},
            "networkData.hardwareAddress: Too long: may not be more than",
        ),
        (
            {"networkData": {"ips": [f"192.0.2.{n}/32" for n in range(17)]}},
            "networkData.ips: Too many: 17: must have at most 16 items",
        ),
        ({"networkData": {"ips": ["192.0.2.1/32"] * 2}}, 'networkData.ips[1]: Duplicate value: "192.0.2.1/32"'),
    ],
)
def test_what_a_driver_reports_of_a_device_is_checked(report: dict[str, Any], wanted: str) -> None:
    one(reported(allocated(devices=[{**REPORT, **report}]))[1], f"status.devices[0].{wanted}")


def test_a_device_has_eight_conditions_at_most() -> None:
    conditions = [
        {"type": f"C{n}", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for n in range(9)
    ]
    found = reported(allocated(devices=[{**REPORT, "conditions": conditions}]))[1]
    one(found, "status.devices[0].conditions: Too many: 9: must have at most 8 items")


def test_a_device_is_reported_on_once() -> None:
    one(reported(allocated(devices=[REPORT, REPORT]))[1], 'status.devices[1]: Duplicate value: {"driver":')
    one(
        reported(allocated(devices=[REPORT, REPORT]), release="1.36")[1],
        'status.devices[1]: Duplicate value: {"Driver":',
    )


def test_administrative_access_in_a_result_needs_the_namespaces_label() -> None:
    request = context(labels={"resource.kubernetes.io/admin-access": "true"})
    strategy = definition_of("resourceclaims").subresources["status"]
    old, _ = created(definition_of("resourceclaims").strategy, claim(), request)
    status = from_dict(resource.ResourceClaimStatus, allocated({**RESULT, "adminAccess": True}))
    new = replace(old, status=status)
    assert updated(strategy, new, old, request)[1] == []
    one(
        texts(updated(strategy, new, old, context())[1]),
        f"{PATH}.results[0].adminAccess: Forbidden: admin access to devices requires the "
        "`resource.kubernetes.io/admin-access: true` label on the containing namespace",
    )
    assert updated(strategy, new, new, context())[1] == []

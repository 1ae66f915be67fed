"""Prepare and unprepare, between a node agent's call and the driver's own code."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cathedra.devicemetadata.stream import KNOWN_VERSIONS
from cathedra.driver import CallFailed, Claim, DiskFiles, Edits, MemoryFiles, Prepared, PreparedClaim, Ref, Retry
from cathedra.driver.preparing.service import ORPHANED, ClaimService
from tests.running import run_with
from tests.unit.driver.world import DRIVER, NODE, SHARES, Lamps, World, in_real_time, in_virtual_time, opaque, result

CDI = Path("/data/cdi")


def spec_file(ref: Ref) -> Path:
    return CDI / f"lamp.example.com-claim_{ref.uid}.json"


@run_with(in_virtual_time)
async def test_prepared_device_names_a_cdi_device_whose_file_exists(world: World) -> None:
    files = MemoryFiles()
    service = world.runner(Lamps(), files=files).service
    service.open()
    ref = await world.allocate("c", "lamp-1")
    answer = (await service.node_prepare_resources([ref]))[ref.uid]
    assert answer.error == ""
    (device,) = answer.devices
    assert (device.request_names, device.pool_name, device.device_name) == (("lamp",), NODE, "lamp-1")
    assert device.cdi_device_ids == (f"lamp.example.com/claim={ref.uid}-lamp-1",)
    document = json.loads(files.contents[spec_file(ref)])
    assert document["kind"] == "lamp.example.com/claim"
    assert document["devices"] == [{"name": f"{ref.uid}-lamp-1", "containerEdits": {"env": ["LAMP_1=on"]}}]


@run_with(in_virtual_time)
async def test_second_prepare_is_answered_from_the_checkpoint(world: World) -> None:
    lamps = Lamps()
    service = world.runner(lamps).service
    ref = await world.allocate("c", "lamp-0")
    first = await service.node_prepare_resources([ref])
    assert await service.node_prepare_resources([ref]) == first
    assert lamps.calls == ["prepare c"]


@run_with(in_virtual_time)
async def test_restart_answers_from_the_checkpoint_and_restores_lost_cdi_files(world: World) -> None:
    files = MemoryFiles()
    ref = await world.allocate("c", "lamp-0")
    first = await world.runner(Lamps(), files=files).service.node_prepare_resources([ref])
    spec = files.contents.pop(spec_file(ref))
    lamps = Lamps()
    service = world.runner(lamps, files=files).service
    service.open()
    assert await service.node_prepare_resources([ref]) == first
    assert lamps.calls == []
    assert files.contents[spec_file(ref)] == spec


@run_with(in_virtual_time)
async def test_reboot_prepares_anew(world: World) -> None:
    files = MemoryFiles()
    ref = await world.allocate("c", "lamp-0")
    await world.runner(Lamps(), files=files).service.node_prepare_resources([ref])
    lamps = Lamps()
    service = world.runner(lamps, files=files, boot_id="boot-2").service
    service.open()
    await service.node_prepare_resources([ref])
    assert lamps.calls == ["prepare c"]


@run_with(in_virtual_time)
async def test_device_of_a_prepared_claim_is_refused_for_another_until_it_is_unprepared(world: World) -> None:
    lamps = Lamps()
    service = world.runner(lamps).service
    old, new = await world.allocate("old", "lamp-0"), await world.allocate("new", "lamp-0")
    await service.node_prepare_resources([old])
    refused = (await service.node_prepare_resources([new]))[new.uid]
    assert "still prepared for claim default/old" in refused.error
    assert lamps.calls == ["prepare old"]
    await service.node_unprepare_resources([old])
    assert (await service.node_prepare_resources([new]))[new.uid].error == ""


@run_with(in_virtual_time)
async def test_admin_access_and_different_shares_may_overlap(world: World) -> None:
    service = world.runner(Lamps()).service
    shares = [await world.allocate(f"s{i}", result("lamp-0", share_id=share)) for i, share in enumerate(SHARES)]
    admin = await world.allocate("admin", result("lamp-0", admin_access=True))
    answers = await service.node_prepare_resources([*shares, admin])
    assert {answer.error for answer in answers.values()} == {""}
    assert answers[shares[1].uid].devices[0].share_id == SHARES[1]
    assert answers[shares[1].uid].devices[0].cdi_device_ids[0].endswith(f"-lamp-0-{SHARES[1]}")


@run_with(in_virtual_time)
async def test_interrupted_prepare_is_rolled_back_before_the_next(world: World) -> None:
    lamps = Lamps()
    lamps.faults = [RuntimeError("lamp is stuck")]
    service = world.runner(lamps).service
    ref = await world.allocate("c", "lamp-0")
    assert (await service.node_prepare_resources([ref]))[ref.uid].error == "lamp is stuck"
    assert (await service.node_prepare_resources([ref]))[ref.uid].error == ""
    assert lamps.calls == ["prepare c", "unprepare c ['lamp-0']", "prepare c"]


@pytest.mark.parametrize(("fault", "told"), [(CallFailed("no such lamp"), False), (ZeroDivisionError("oops"), True)])
@run_with(in_virtual_time)
async def test_only_unexpected_faults_are_logged_with_their_place(
    world: World, *, caplog: pytest.LogCaptureFixture, fault: Exception, told: bool
) -> None:
    lamps = Lamps()
    lamps.faults = [fault]
    claim = await world.allocate("a", "lamp-0")
    await world.runner(lamps).service.node_prepare_resources([claim])
    record = next(record for record in caplog.records if "prepare claim default/a" in record.message)
    assert (record.exc_info is not None) is told
    said = {"driver": DRIVER, "namespace": "default", "claim": "a", "claimUID": claim.uid}
    assert record.__dict__["fields"] == said


@run_with(in_virtual_time)
async def test_one_claims_failure_leaves_the_others_alone(world: World) -> None:
    lamps = Lamps()
    lamps.faults = [RuntimeError("no")]
    service = world.runner(lamps).service
    a, b = await world.allocate("a", "lamp-0"), await world.allocate("b", "lamp-1")
    answers = await service.node_prepare_resources([a, b])
    assert (answers[a.uid].error, answers[b.uid].error) == ("no", "")


@pytest.mark.parametrize(
    ("faults", "error", "seconds"),
    [(4, "", 0.25 + 0.5 + 1 + 2), (100, "warming up", 0.25 + 0.5 + 1 + 2 + 4 + 5)],
    ids=["they are over in time", "they end before the deadline of the call"],
)
@run_with(in_virtual_time)
async def test_transient_faults_are_retried_inside_the_call(
    world: World, *, faults: int, error: str, seconds: float
) -> None:
    lamps = Lamps()
    lamps.faults = [Retry("warming up")] * faults
    ref = await world.allocate("c", "lamp-0")
    start = world.clock.monotonic()
    answer = await world.runner(lamps).service.node_prepare_resources([ref], timeout=20)
    assert answer[ref.uid].error == error
    assert world.clock.monotonic() - start == pytest.approx(seconds)


@run_with(in_virtual_time)
async def test_driver_that_hangs_is_cut_off_before_the_deadline(world: World) -> None:
    class Hanging(Lamps):
        async def prepare(self, claim: Claim) -> AsyncIterator[Prepared]:  # type: ignore[override]
            await asyncio.sleep(1000)
            yield claim.allocations[0].prepared()

    ref = await world.allocate("c", "lamp-0")
    answer = await world.runner(Hanging()).service.node_prepare_resources([ref])
    assert "did not finish before the call's deadline" in answer[ref.uid].error
    assert world.clock.monotonic() <= 41


@run_with(in_virtual_time)
async def test_claims_that_cannot_be_read_fail_the_whole_call(world: World) -> None:
    lamps = Lamps()
    service = world.runner(lamps).service
    good = await world.allocate("good", "lamp-0")
    with pytest.raises(CallFailed, match="get resource claims: retrieve claim default/gone: "):
        await service.node_prepare_resources([good, Ref("default", "gone", "x")])
    with pytest.raises(CallFailed, match="get resource claims: claim default/good got replaced"):
        await service.node_prepare_resources([Ref("default", "good", "other")])
    assert lamps.calls == []


@run_with(in_virtual_time)
async def test_a_claim_for_which_no_memory_is_left_fails_the_call_with_a_sentence(world: World) -> None:
    async def get(*_: object) -> None:
        raise MemoryError

    service = world.runner(Lamps()).service
    claim = await world.allocate("large", "lamp-0")
    sentence = "get resource claims: retrieve claim default/large: no memory is left"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("cathedra.client.client.ResourceClient.get", get)
        with pytest.raises(CallFailed, match=sentence):
            await service.node_prepare_resources([claim])


@run_with(in_virtual_time)
async def test_empty_calls_are_answered_and_nothing_else(world: World) -> None:
    service = world.runner(Lamps()).service
    assert await service.node_prepare_resources([]) == {}
    assert await service.node_unprepare_resources([]) == {}


@run_with(in_virtual_time)
async def test_unprepare_needs_no_claim_and_forgets_everything(world: World) -> None:
    files = MemoryFiles()
    lamps = Lamps()
    service = world.runner(lamps, files=files).service
    ref = await world.allocate("c", "lamp-0")
    await service.node_prepare_resources([ref])
    await world.delete_claim("c")
    assert await service.node_unprepare_resources([ref]) == {ref.uid: ""}
    assert await service.node_unprepare_resources([ref]) == {ref.uid: ""}
    assert lamps.calls == ["prepare c", "unprepare c ['lamp-0']"]
    assert service.prepared == ()
    assert [path.name for path in files.contents] == ["checkpoint.boot", "checkpoint.json"]


@run_with(in_virtual_time)
async def test_unprepare_that_fails_is_tried_again_by_the_next_call(world: World) -> None:
    lamps = Lamps()
    service = world.runner(lamps).service
    ref = await world.allocate("c", "lamp-0")
    await service.node_prepare_resources([ref])
    lamps.faults = [RuntimeError("busy")]
    assert await service.node_unprepare_resources([ref]) == {ref.uid: "busy"}
    assert service.prepared == (ref,)
    assert await service.node_unprepare_resources([ref]) == {ref.uid: ""}


@run_with(in_virtual_time)
async def test_start_removes_files_of_unknown_claims(world: World) -> None:
    files = MemoryFiles()
    kept = await world.allocate("c", "lamp-0")
    await world.runner(Lamps(), files=files).service.node_prepare_resources([kept])
    lost, foreign = spec_file(Ref("d", "n", "lost")), CDI / "other.example.com-claim_x.json"
    files.contents |= {lost: b"{}", foreign: b"{}"}
    world.runner(Lamps(), files=files).service.open()
    assert lost not in files.contents
    assert {foreign, spec_file(kept)} <= files.contents.keys()


@run_with(in_virtual_time)
async def test_results_and_configs_of_other_drivers_are_not_seen(world: World) -> None:
    ref = await world.allocate(
        "c",
        result("gpu-0", request="other", driver="other.example.com"),
        "lamp-0",
        config=[opaque({"what": "ever"}, driver="other.example.com")],
    )
    answer = await world.runner(Lamps()).service.node_prepare_resources([ref])
    assert [device.device_name for device in answer[ref.uid].devices] == ["lamp-0"]


@run_with(in_virtual_time)
async def test_calls_run_one_at_a_time(world: World) -> None:
    class Slow(Lamps):
        active = 0
        most = 0

        async def prepare(self, claim: Claim) -> AsyncIterator[Prepared]:  # type: ignore[override]
            self.active += 1
            self.most = max(self.most, self.active)
            await asyncio.sleep(1)
            self.active -= 1
            yield claim.allocations[0].prepared(Edits(env={"A": "b"}))

    slow = Slow()
    service = world.runner(slow).service
    refs = [await world.allocate(f"c{i}", f"lamp-{i}") for i in range(3)]
    await asyncio.gather(*(service.node_prepare_resources([ref]) for ref in refs))
    assert slow.most == 1


@run_with(in_virtual_time)
async def test_device_without_edits_is_not_named_to_the_runtime(world: World) -> None:
    class Plain(Lamps):
        async def prepare(self, claim: Claim) -> list[Prepared]:  # type: ignore[override]
            return [a.prepared() for a in claim.allocations]

    files = MemoryFiles()
    ref = await world.allocate("c", "lamp-0")
    answer = await world.runner(Plain(), files=files).service.node_prepare_resources([ref])
    assert answer[ref.uid].devices[0].cdi_device_ids == ()
    assert spec_file(ref) not in files.contents


CHECKPOINT = Path("/data/plugins") / DRIVER / "checkpoint.json"


def damage(files: MemoryFiles) -> bytes:
    """Flip a bit of the checkpoint, and return what it is then."""
    data = bytearray(files.contents[CHECKPOINT])
    data[len(data) // 2] ^= 1
    files.contents[CHECKPOINT] = bytes(data)
    return bytes(data)


@run_with(in_virtual_time)
async def test_a_damaged_checkpoint_is_kept_and_reported_and_its_claims_stay_prepared(world: World) -> None:
    files = MemoryFiles()
    old = await world.allocate("old", "lamp-0")
    await world.runner(Lamps(), files=files).service.node_prepare_resources([old])
    broken = damage(files)
    lamps = Lamps()
    service = world.runner(lamps, files=files).service
    service.open()
    (kept,) = (path for path in files.contents if path.name.startswith("checkpoint.json.damaged-"))
    assert files.contents[kept] == broken
    assert any(f"is damaged (wrong checksum) and kept as {kept}" in error for error in lamps.errors)
    assert spec_file(old) in files.contents

    new = await world.allocate("new", "lamp-0", "lamp-1")
    refused = (await service.node_prepare_resources([new]))[new.uid]
    assert f"device {NODE}/lamp-0 is still prepared for claim with UID {old.uid} (recovered from" in refused.error
    other = await world.allocate("other", "lamp-2")
    assert (await service.node_prepare_resources([other]))[other.uid].error == ""


@pytest.mark.parametrize("exists", [True, False], ids=["the claim exists", "the claim is gone"])
@run_with(in_virtual_time)
async def test_a_claim_of_a_damaged_checkpoint_is_unprepared_with_its_devices(world: World, *, exists: bool) -> None:
    files = MemoryFiles()
    old = await world.allocate("old", "lamp-0", "lamp-3")
    await world.runner(Lamps(), files=files).service.node_prepare_resources([old])
    damage(files)
    if not exists:
        await world.delete_claim("old")
    lamps = Lamps()
    service = world.runner(lamps, files=files).service
    service.open()
    assert await service.node_unprepare_resources([old]) == {old.uid: ""}
    assert lamps.calls == ["unprepare old ['lamp-0', 'lamp-3']"]
    assert spec_file(old) not in files.contents
    new = await world.allocate("new", "lamp-0")
    assert (await service.node_prepare_resources([new]))[new.uid].error == ""


@run_with(in_virtual_time)
async def test_what_a_damaged_checkpoint_held_is_known_after_further_restarts(world: World) -> None:
    files = MemoryFiles()
    old = await world.allocate("old", "lamp-0")
    await world.runner(Lamps(), files=files).service.node_prepare_resources([old])
    damage(files)
    first = world.runner(Lamps(), files=files).service
    first.open()
    other = await world.allocate("other", "lamp-2")
    await first.node_prepare_resources([other])
    lamps = Lamps()
    second = world.runner(lamps, files=files).service
    second.open()
    assert spec_file(old) in files.contents
    assert (await second.node_prepare_resources([old]))[old.uid].error == ""
    assert lamps.calls == ["prepare old"]
    await second.node_unprepare_resources([old, other])
    assert lamps.calls[1:] == ["unprepare old ['lamp-0']", "unprepare other ['lamp-2']"]


@run_with(in_virtual_time)
async def test_a_recovered_claim_is_dropped_when_its_document_was_removed(world: World) -> None:
    """This is the way out that the error names, if neither node agent nor API server know the claim."""
    files = MemoryFiles()
    old = await world.allocate("old", "lamp-0")
    await world.runner(Lamps(), files=files).service.node_prepare_resources([old])
    damage(files)
    world.runner(Lamps(), files=files).service.open()
    files.remove(spec_file(old))
    service = world.runner(Lamps(), files=files).service
    service.open()
    new = await world.allocate("new", "lamp-0")
    assert (await service.node_prepare_resources([new]))[new.uid].error == ""


@run_with(in_virtual_time)
async def test_a_claim_that_is_gone_and_was_never_unprepared_makes_room_after_a_while(world: World) -> None:
    """The node agent has lost its state, or the pod was deleted by force while the driver was away."""
    lamps = Lamps()
    service = world.runner(lamps).service
    service.open()
    old = await world.allocate("old", "lamp-0")
    await service.node_prepare_resources([old])
    new = await world.allocate("new", "lamp-0")
    for _ in range(2):
        await world.clock.sleep(60)
        assert "still prepared" in (await service.node_prepare_resources([new]))[new.uid].error
    await world.delete_claim("old")
    assert "still prepared" in (await service.node_prepare_resources([new]))[new.uid].error
    await world.clock.sleep(9)
    assert "still prepared" in (await service.node_prepare_resources([new]))[new.uid].error
    await world.clock.sleep(2)
    assert (await service.node_prepare_resources([new]))[new.uid].error == ""
    assert lamps.calls == ["prepare old", "unprepare old ['lamp-0']", "prepare new"]


@run_with(in_virtual_time)
async def test_claims_that_are_gone_are_unprepared_without_a_call(world: World) -> None:
    lamps = Lamps()
    service = world.runner(lamps).service
    service.open()
    gone, kept = await world.allocate("gone", "lamp-0"), await world.allocate("kept", "lamp-1")
    await service.node_prepare_resources([gone, kept])
    assert not await service.reconcile()
    await world.delete_claim("gone")
    assert await service.reconcile()
    await world.clock.sleep(ORPHANED)
    assert not await service.reconcile()
    assert lamps.calls[2:] == ["unprepare gone ['lamp-0']"]
    assert service.prepared == (kept,)


@run_with(in_virtual_time)
async def test_one_claim_that_cannot_be_unprepared_does_not_stop_the_comparison(world: World) -> None:
    lamps, files = Lamps(), MemoryFiles()
    service = world.runner(lamps, files=files).service
    service.open()
    refs = [await world.allocate(name, f"lamp-{i}") for i, name in enumerate(("a", "b", "c"))]
    await service.node_prepare_resources(refs)
    for name in ("a", "b"):
        await world.delete_claim(name)
    files.remove(spec_file(refs[2]))
    await service.reconcile()
    await world.clock.sleep(ORPHANED)
    lamps.faults = [RuntimeError("cable will not come out")]
    assert not await service.reconcile()
    assert service.prepared == (refs[0], refs[2])
    assert lamps.errors == ["unprepare claim default/a, which is gone: cable will not come out"]
    assert spec_file(refs[2]) in files.contents
    assert not await service.reconcile()
    assert service.prepared == (refs[2],)


class Killed(BaseException):
    """The end of the process by signal 9."""


class Dying(MemoryFiles):
    """Files whose process is killed before the operation with the number ``last``, counted from 0."""

    def __init__(self, contents: dict[Path, bytes], last: int) -> None:
        super().__init__()
        self.contents = contents
        self.last = last

    def _step(self) -> None:
        self.last -= 1
        if self.last < 0:
            raise Killed

    def write(self, path: Path, content: bytes) -> None:
        self._step()
        super().write(path, content)

    async def write_durably(self, path: Path, content: bytes) -> None:
        self._step()
        await super().write_durably(path, content)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

    def remove_tree(self, path: Path) -> None:
        self._step()
        super().remove_tree(path)


class Switches(Lamps):
    """A driver whose devices keep their state when its process ends, with metadata files."""

    metadata_versions = KNOWN_VERSIONS

    def __init__(self, on: set[str]) -> None:
        super().__init__()
        self.on = on

    def prepare(self, claim: Claim) -> list[Prepared]:
        self.on.update(device.device for device in claim.allocations)
        return list(super().prepare(claim))

    def unprepare(self, ref: Ref, prepared: PreparedClaim) -> None:
        self.on.difference_update(device.device for device in prepared.devices)


async def killed_at(world: World, number: int, *, unprepares: bool) -> bool:
    """Kill the driver before its file operation ``number`` in a call, and test what the next process knows.

    Return False if the call makes fewer operations.
    """
    name = f"c{number}"
    ref = await world.allocate(name, "lamp-0")
    on: set[str] = set()
    contents: dict[Path, bytes] = {}

    def service(last: int = 1000) -> ClaimService:
        made = world.runner(Switches(on), files=Dying(contents, last)).service
        made.open()
        return made

    call = ClaimService.node_unprepare_resources if unprepares else ClaimService.node_prepare_resources
    if unprepares:
        await service().node_prepare_resources([ref])
    was_killed = False
    try:
        await call(service(number), [ref])
    except Killed:
        was_killed = True
    # The next process: a device that is on must be known, whichever call comes next.
    second = service()
    if on:
        other = await world.allocate(f"{name}-other", "lamp-0")
        assert "still prepared" in (await second.node_prepare_resources([other]))[other.uid].error
    answer = (await second.node_prepare_resources([ref]))[ref.uid]
    assert answer.error == ""
    assert on == {"lamp-0"}
    assert spec_file(ref) in contents
    third = service()
    assert (await third.node_prepare_resources([ref]))[ref.uid] == answer
    assert await third.node_unprepare_resources([ref]) == {ref.uid: ""}
    assert (on, third.prepared) == (set(), ())
    assert not [path for path in contents if ref.uid in path.name or name in str(path)]
    return was_killed


@pytest.mark.parametrize(("unprepares", "operations"), [(False, 5), (True, 4)], ids=["prepare", "unprepare"])
@run_with(in_virtual_time)
async def test_driver_that_is_killed_between_any_two_file_operations_loses_nothing(
    world: World, *, unprepares: bool, operations: int
) -> None:
    survived = [await killed_at(world, number, unprepares=unprepares) for number in range(12)]
    assert sum(survived) >= operations
    assert not survived[-1]


async def test_prepare_and_unprepare_sync_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync costs more than all the rest of a call; see `cathedra.driver.preparing.checkpoint` for why none is due."""
    world = await in_real_time()
    service = world.runner(Lamps(), files=DiskFiles(), directory=tmp_path).service
    service.open()
    first, second = await world.allocate("first", "lamp-0"), await world.allocate("second", "lamp-1")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    await service.node_prepare_resources([first])
    assert len(synced) == 2, "the name of the boot, and its directory"
    await service.node_prepare_resources([second])
    await service.node_unprepare_resources([first, second])
    assert len(synced) == 2
    await world.server.close()

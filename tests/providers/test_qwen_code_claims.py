"""What Qwen Code publishes about its processes: its registry and each runtime.json, whole or bad."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from corral.model.claim import BadClaim, Claim, ClaimKind
from tests.providers.qwen_support import CANCELLED, FORK, SCOPE, Place

CANARY = "CANARY-NOT-A-SECRET"
BOOT = "00000000-0000-4000-8000-00000000b007"


def claim_of(place: Place, kind: ClaimKind, session_id: str) -> Claim:
    return next(
        claim
        for claim in place.claims()
        if isinstance(claim, Claim) and claim.kind is kind and claim.session_id == session_id
    )


def test_the_registry_gives_the_exact_identity(place: Place) -> None:
    claim = claim_of(place, ClaimKind.REGISTRY, CANCELLED)
    assert (claim.pid, claim.boot_id, claim.start_ticks, claim.pid_ns) == (4337, BOOT, 124765, 4026531836)
    assert claim.written_at == pytest.approx(1794770956.968)
    assert (claim.version, claim.scope, claim.owner_uid, claim.many) == ("0.24.4", None, os.getuid(), False)


def test_an_acp_process_serves_many(place: Place) -> None:
    claim = claim_of(place, ClaimKind.REGISTRY, "ca8619cf-c7d9-4cdc-9b38-4c4a4514f94e")
    assert (claim.pid, claim.many) == (2003, True)


def test_runtime_json_is_the_second_best(place: Place) -> None:
    claim = claim_of(place, ClaimKind.RUNTIME, CANCELLED)
    assert (claim.pid, claim.scope, claim.hostname, claim.start_ticks) == (4337, SCOPE, "devhost", None)


def test_a_runtime_json_of_another_session_is_bad(place: Place) -> None:
    shutil.copy(place.chats / f"{CANCELLED}.runtime.json", place.chats / f"{FORK}.runtime.json")
    bad = [claim for claim in place.claims() if isinstance(claim, BadClaim)]
    assert [(claim.session_id, claim.scope) for claim in bad] == [(FORK, SCOPE)]


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": True},
        {"pid": "4242"},
        {"pid": 4242.5},
        {"pid": -1},
        {"pid": 2**64},
        {"pid": 4243},
        {"pid": ...},
        {"procStart": None},
        {"procStart": "73402"},
        {"procStart": f"{BOOT}:"},
        {"procStart": f"{BOOT}:12:13"},
        {"procStart": f"{BOOT}:-5"},
        {"procStart": 73402},
        {"pidNs": None},
        {"pidNs": "4026531836"},
        {"pidNs": 2**64},
        {"sessionId": "../../etc/passwd"},
        {"sessionId": 5},
        {"schemaVersion": 2},
        {"schemaVersion": "1"},
        {"schemaVersion": ...},
        {"startedAt": "now"},
        {"startedAt": float("nan")},
        {"startedAt": -1},
        {"cwd": None},
    ],
)
def test_a_registry_record_of_another_shape_is_bad(place: Place, changes: dict[str, Any]) -> None:
    claim = place.register(**changes)
    assert isinstance(claim, BadClaim)
    assert claim.reason


@pytest.mark.parametrize(
    "name", ["0.json", "042.json", "x.json", "4242-ABCDEF01.json", "4242-abc.json", "4242-notes.json", "-4242.json"]
)
def test_a_registry_record_with_another_name_is_bad(place: Place, name: str) -> None:
    assert isinstance(place.register(name), BadClaim)


def test_a_foreign_namespace_is_kept_as_written(place: Place) -> None:
    claim = place.register(pidNs=7)
    assert isinstance(claim, Claim)
    assert claim.pid_ns == 7


def test_temporary_files_of_the_registry_are_no_claims(place: Place) -> None:
    (place.registry / "4242.json.0123456789ab.tmp").write_text("{")
    assert not any(claim.path.endswith(".tmp") for claim in place.claims())


@pytest.mark.parametrize("kind", ["fifo", "link", "directory", "large", "torn", "nested"])
def test_a_registry_entry_that_is_no_record_is_bad(place: Place, kind: str) -> None:
    path = place.registry / "4242.json"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "link":
            path.symlink_to(place.registry / "4337.json")
        case "directory":
            path.mkdir()
        case "large":
            path.write_bytes((place.registry / "4337.json").read_bytes() + b" " * (1 << 17))
        case "torn":
            path.write_bytes((place.registry / "4337.json").read_bytes()[:-20])
        case _:
            path.write_bytes(b"[" * 60000)
    claim = next(claim for claim in place.claims() if claim.path == str(path))
    assert isinstance(claim, BadClaim)


def test_the_token_is_never_in_anything_returned(place: Place) -> None:
    assert CANARY in (place.registry / "4337.json").read_text()
    place.register(ipcToken=CANARY)
    place.register("4243.json", pid=CANARY, ipcToken=CANARY, sessionId=CANARY)
    place.register("4244.json", pid=4244, procStart=CANARY)
    place.register("4245.json", pid=4245, ipcToken=[CANARY])
    (place.registry / "4246.json").write_text(f'{{"ipcToken": "{CANARY}')
    returned: Sequence[Any] = [*place.claims(), *place.listing()]
    assert len(returned) > 10
    for value in returned:
        assert CANARY not in repr(value)
        assert CANARY.encode() not in msgspec.json.encode(value)
        assert b"qwen-socks" not in msgspec.json.encode(value)


def test_a_record_that_goes_while_the_registry_is_read_is_no_claim(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [*listed(path), "4242.json"])
    assert not any(claim.path.endswith("/4242.json") for claim in place.claims())

"""One object that is too much for somebody stops nobody else: what others write is still seen, queued and answered."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from corral.client.protocol import Client
from corral.core.backoff import doubled
from corral.core.meta import Obj, name_of
from corral.core.quantity import Quantity
from corral.core.timestamps import format_duration, format_micro, format_time, parse_duration, parse_time
from corral.core.whole_numbers import whole_number
from corral.decide.pods.lifecycle import backoff
from corral.decide.queueing.model.decode import cluster_queue_from, cohort_from, local_queue_from
from corral.jobs.batch_job.cron_schedule import latest_due, parse_schedule
from corral.jobs.batch_job.indexes import Indexes
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS
from corral.kinds.machinery.tables import UNKNOWN, since
from corral.runtime.clock import VirtualClock
from corral.runtime.informer import Informer
from corral.runtime.random import Random
from corral.runtime.virtual import run_virtual
from corral.server.access.certificate_signing import BUCKET, SIGNER, Signer
from corral.server.access.certificates import Authority
from corral.server.access.tokens import Signer as TokenSigner
from corral.server.http.message import Request
from corral.server.non_resource_paths import Endpoints
from corral.store import ObjectKey, Store
from corral.testing.cluster import VirtualCluster
from corral.testing.queueing import make_cluster_queue, make_cohort, make_local_queue

HUGE = "1e400"
NO_DIGIT = "\N{SUPERSCRIPT TWO}"


def config_map(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


def stumble(obj: Obj) -> list[str]:
    if name_of(obj) == "poison":
        raise OverflowError("integer division result too large for a float")
    return ["seen"]


def informed(scenario: Callable[[Client, Informer, list[str]], Awaitable[None]]) -> None:
    async def main() -> None:
        async with VirtualCluster() as cluster:
            informer = Informer(cluster.client, CONFIG_MAPS, cluster.clock, Random(0), namespace="default")
            heard: list[str] = []
            informer.add_index("seen", stumble)
            informer.on_change(lambda old, new: stumble(new or old or {}) and None)
            informer.on_change(lambda old, new: heard.append(name_of(new or old or {})))
            running = asyncio.ensure_future(informer.run())
            await scenario(cluster.client, informer, heard)
            await cluster.advance(60.0)
            assert "after" in heard
            assert "after" in map(name_of, informer.by_index("seen", "seen"))
            assert not running.done()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    run_virtual(main)


def test_an_object_that_is_there_already_and_breaks_a_handler_does_not_hide_the_others() -> None:
    async def scenario(client: Client, informer: Informer, heard: list[str]) -> None:
        await client.create(CONFIG_MAPS, config_map("poison"))
        await client.create(CONFIG_MAPS, config_map("after"))
        await informer.synced()

    informed(scenario)


def test_an_object_that_comes_later_and_breaks_a_handler_does_not_hide_the_others() -> None:
    async def scenario(client: Client, informer: Informer, heard: list[str]) -> None:
        await informer.synced()
        await client.create(CONFIG_MAPS, config_map("poison"))
        await client.create(CONFIG_MAPS, config_map("after"))

    informed(scenario)


@pytest.mark.parametrize("text", [HUGE, f"-{HUGE}", "9" * 500, "1e-400"])
def test_every_quantity_is_a_number_to_reckon_with(text: str) -> None:
    number = Quantity.parse(text).number
    assert number - number == 0.0  # neither infinite nor none
    assert (number > 0) is not text.startswith("-")


@pytest.mark.parametrize("weight", [HUGE, "1e-400"])
def test_a_queue_of_any_weight_can_be_read(weight: str) -> None:
    sharing = {"weight": weight}
    assert local_queue_from(make_local_queue("lq", "cq", fairSharing=sharing)).weight > 0
    assert cluster_queue_from(make_cluster_queue("cq", fairSharing=sharing)).weight > 0
    assert cohort_from(make_cohort("cohort", weight=weight)).weight > 0


@pytest.mark.parametrize("text", [NO_DIGIT, "\N{ARABIC-INDIC DIGIT TWO}", "9" * 5000, "", "-1", "+1", "1_0", " 1"])
def test_what_is_no_whole_number_is_none(text: str) -> None:
    assert whole_number(text) is None
    assert not list(Indexes.parse(f"{text},{NO_DIGIT}-3,7", 3))


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-10:00", "0001-01-01T00:00:00+10:00", "0000-01-01T00:00:00Z"])
def test_a_time_that_cannot_be_written_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError):
        parse_time(text)


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59Z", "0500-01-01T00:00:00.5Z", "0001-01-01T00:00:00Z"])
def test_a_time_that_can_be_read_can_be_written(text: str) -> None:
    assert format_time(parse_time(text))[:10] == text[:10]
    assert format_micro(parse_time(text))[:4] == text[:4]


def test_a_time_that_nobody_can_read_leaves_a_table_its_other_rows() -> None:
    assert since("500-01-01T00:00:00Z", 0.0) == UNKNOWN


def test_a_duration_that_cannot_be_written_cannot_be_read() -> None:
    assert format_duration(parse_duration("2562047h")) == "2562047h0m0s"
    for text in ("2562048h", f"{'9' * 400}h"):
        with pytest.raises(ValueError):
            parse_duration(text)


@pytest.mark.parametrize("times", [-1, 0, 61, 5000, 2**31 - 1])
def test_a_pause_doubles_without_end_and_without_growing(times: int) -> None:
    assert 0 < doubled(1.0, times, 300.0) <= 300.0
    assert backoff(times) <= 300.0


def test_a_cron_schedule_that_was_last_met_ages_ago_is_due_once_now() -> None:
    now = parse_time("2026-01-01T12:00:30Z")
    due, missed = latest_due(parse_schedule("* * * * *"), parse_time("1500-01-01T00:00:00Z"), now)
    assert due == now - 30
    assert missed >= 100


def request_for_a_certificate(*, known_curve: bool = True) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bob")])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    text = made.public_bytes(serialization.Encoding.DER)
    if not known_curve:
        text = text.replace(bytes.fromhex("06082a8648ce3d030107"), bytes.fromhex("06082a8648ce3d030177"))
    return b"-----BEGIN CERTIFICATE REQUEST-----\n" + base64.encodebytes(text) + b"-----END CERTIFICATE REQUEST-----\n"


def test_a_certificate_request_nobody_can_read_does_not_keep_the_next_from_being_signed() -> None:
    async def put(store: Store, name: str, request: bytes) -> None:
        spec = {"request": base64.b64encode(request).decode(), "signerName": SIGNER, "usages": ["client auth"]}
        status = {"conditions": [{"type": "Approved", "status": "True"}]}
        await store.put(ObjectKey(BUCKET, "", name), {"metadata": {"name": name}, "spec": spec, "status": status})

    async def main() -> None:
        clock = VirtualClock()
        store = Store(now=clock.now)
        signer = Signer(store, Authority.create("ca", clock.now()), clock)
        running = asyncio.ensure_future(signer.run())
        await put(store, "bad", request_for_a_certificate(known_curve=False))
        await clock.sleep(1.0)
        await put(store, "good", request_for_a_certificate())
        await clock.sleep(1.0)
        bad, good = (store.get(ObjectKey(BUCKET, "", name)) for name in ("bad", "good"))
        assert bad is not None
        assert good is not None
        assert [each["type"] for each in bad.obj["status"]["conditions"]] == ["Approved", "Failed"]
        assert "certificate" in good.obj["status"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_virtual(main)


@pytest.mark.parametrize("target", ["127.0.0.1:22", "*", "x"])
def test_a_target_that_is_no_path_is_none_of_ours_and_no_error(target: str) -> None:
    endpoints = Endpoints(
        cast(TokenSigner, None), "", paths=tuple, ready=lambda: True, trouble=lambda: "", metrics=lambda: b""
    )
    assert endpoints.answer(Request("CONNECT", target)) is None

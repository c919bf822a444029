"""Real processes over mutual TLS on this machine's loopback: what they carry, what ends, what is refused."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import ssl
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvflare")

from fedveil.core.errors import FedveilError
from fedveil.federation.demonstration import demonstrate
from fedveil.report.terminal.run_progress import SilentReporter
from fedveil.runtimes.child_processes import ChildProcesses
from fedveil.runtimes.loopback import LoopbackKits, loopback_kits
from fedveil.runtimes.nvflare import FlareTransport
from fedveil.runtimes.tls_certificates import make_authority

SUPPORT = Path(__file__).parent.parent / "support"
NAMES = ("north", "south", "west")
START = 90.0
"""Seconds. On idle cores a site is there in five."""
SMALL_LIMIT = 3_000_000
"""Bytes that a site takes, where a test sets it; kits set a larger one."""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])}


def start(processes: ChildProcesses, kits: LoopbackKits, name: str) -> None:
    processes.start(name, ["echo_site", str(kits.site(name))], environment())


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> LoopbackKits:
    return loopback_kits(tmp_path_factory.mktemp("federation"), NAMES)


@pytest.fixture(scope="module")
def sites(kits: LoopbackKits) -> Iterator[ChildProcesses]:
    with ChildProcesses(kits.folder) as processes:
        for name in NAMES:
            start(processes, kits, name)
        yield processes


@dataclass
class Coordinator:
    transport: FlareTransport


@pytest.fixture(scope="module")
def coordinator(kits: LoopbackKits, sites: ChildProcesses) -> Iterator[Coordinator]:
    running = Coordinator(FlareTransport(kits.coordinator))
    try:
        assert running.transport.wait_for(frozenset(NAMES), START) == frozenset()
        yield running
    finally:
        running.transport.close()


@pytest.fixture
def transport(coordinator: Coordinator) -> FlareTransport:
    return coordinator.transport


def ask(transport: FlareTransport, question: bytes, deadline: float = 30.0) -> dict[str, bytes]:
    return dict(transport.ask(dict.fromkeys(NAMES, question), deadline))


def test_every_site_answers_its_own_question(transport: FlareTransport) -> None:
    questions = {name: f"to {name}".encode() for name in NAMES}
    for _ in range(3):
        assert dict(transport.ask(questions, 30)) == {name: b"echo " + question for name, question in questions.items()}


def test_a_round_does_not_wait_for_a_poll(transport: FlareTransport) -> None:
    begun = time.monotonic()
    for number in range(20):
        assert len(ask(transport, b"round %d" % number)) == len(NAMES)
    assert (time.monotonic() - begun) / 20 < 1.0, "jobs of NVFlare take two seconds a round, whatever the machine"


def test_empty_and_large_messages_arrive_as_they_were_sent(transport: FlareTransport) -> None:
    large = os.urandom(5_000_000)
    assert ask(transport, large, 60) == dict.fromkeys(NAMES, b"echo " + large)
    assert ask(transport, b"") == dict.fromkeys(NAMES, b"echo ")


def test_an_answer_that_fails_is_asked_for_again_and_the_reason_stays_at_the_site(
    transport: FlareTransport, sites: ChildProcesses
) -> None:
    begun = time.monotonic()
    assert ask(transport, b"fails once") == dict.fromkeys(NAMES, b"echo fails once")
    assert time.monotonic() - begun < 10, "the coordinator is told, and does not wait until its patience ends"
    assert "a record: 42" in sites.log("north").read_text()
    assert "a record: 42" not in "".join(
        path.read_text(errors="replace") for path in (sites.log("north").parent / "coordinator").glob("*.txt")
    )


def test_nothing_listens_beyond_this_machine(kits: LoopbackKits, transport: FlareTransport) -> None:
    lines = [line for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    addresses = [line.split()[1:4] for line in lines]
    listening = [local for local, _, state in addresses if state == "0A" and local.endswith(f":{kits.port:04X}")]
    assert listening
    assert all(local.startswith(("0100007F", "0000000000000000FFFF00000100007F")) for local in listening)


def test_a_caller_without_a_certificate_is_refused(kits: LoopbackKits, transport: FlareTransport) -> None:
    anybody = ssl.create_default_context(cafile=str(kits.authority / "authority.crt"))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        shake_hands(kits.port, anybody)
    anybody.load_cert_chain(
        kits.site("north") / "startup" / "client.crt", kits.site("north") / "startup" / "client.key"
    )
    shake_hands(kits.port, anybody)  # a control: it was the certificate that was missing


def test_a_site_lets_nobody_on_its_machine_in_without_a_certificate(kits: LoopbackKits, sites: ChildProcesses) -> None:
    """NVFlare's client listens for processes of its own jobs, of which there are none."""
    sites.wait_for_line("north", "connected", START)
    (port,) = set(
        re.findall(r"internal listener for stcp://127.0.0.1:(\d+)", (kits.site("north") / "log.txt").read_text())
    )
    anybody = ssl.create_default_context(cafile=str(kits.authority / "authority.crt"))
    anybody.check_hostname = False
    anybody.verify_mode = ssl.CERT_NONE
    with pytest.raises((ssl.SSLError, ConnectionError)):
        shake_hands(int(port), anybody)


def shake_hands(port: int, context: ssl.SSLContext) -> None:
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("localhost", port), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        if not secure.recv(1):  # TLS 1.3 tells the caller afterwards
            raise ConnectionResetError("the coordinator hung up")


def test_a_site_that_is_not_listed_is_refused_and_told_so(
    kits: LoopbackKits, transport: FlareTransport, sites: ChildProcesses
) -> None:
    kits.add_site("east")
    start(sites, kits, "east")
    sites.wait_for_line("east", "east is not a site of this federation", START)
    sites.kill("east")
    assert "east" not in transport.present()
    assert "connected" not in sites.log("east").read_text().replace("not connected", "")


def wait_for_text(path: Path, text: str) -> None:
    end = time.monotonic() + START
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < end, path
        time.sleep(0.1)


@pytest.mark.slow
def test_a_site_of_a_foreign_authority_is_refused(
    kits: LoopbackKits, transport: FlareTransport, sites: ChildProcesses, tmp_path: Path
) -> None:
    """It has the listed name, and trusts the coordinator's authority, too; its own certificate is by another one."""
    foreign = LoopbackKits(tmp_path, kits.federation, kits.port, ())
    foreign.authority.mkdir()
    make_authority(foreign.authority, kits.federation)
    foreign.add_site("west")
    both = [(folder / "authority.crt").read_bytes() for folder in (foreign.authority, kits.authority)]
    (foreign.site("west") / "startup" / "rootCA.pem").write_bytes(b"".join(both))
    sites.kill("west")
    with ChildProcesses(tmp_path) as strangers:
        start(strangers, foreign, "west")
        wait_for_text(foreign.site("west") / "log.txt", "re-challenge after")
        assert set(dict(transport.ask(dict.fromkeys(NAMES, b"who is there?"), 3.0))) == {"north", "south"}
        assert strangers.log("west").read_text() == ""
    start(sites, kits, "west")
    assert transport.wait_for(frozenset(NAMES), START) == frozenset()


def test_who_is_silent_does_not_come_and_who_was_killed_answers_when_it_is_back(
    kits: LoopbackKits, transport: FlareTransport, sites: ChildProcesses
) -> None:
    before = ask(transport, b"process")
    begun = time.monotonic()
    questions = {"north": b"silent", "south": b"hello", "west": b"hello"}
    assert dict(transport.ask(questions, 5.0)) == {"south": b"echo hello", "west": b"echo hello"}
    assert 5.0 <= time.monotonic() - begun < 15.0
    sites.kill("north")
    start(sites, kits, "north")
    after = dict(transport.ask(dict.fromkeys(NAMES, b"process"), START))
    assert after.keys() == before.keys()
    assert after["north"] != before["north"]
    assert {name: after[name] for name in ("south", "west")} == {name: before[name] for name in ("south", "west")}


@pytest.mark.slow
def test_sites_come_back_to_a_coordinator_that_was_killed(kits: LoopbackKits, coordinator: Coordinator) -> None:
    killed = coordinator.transport
    os.kill(killed.process_id, signal.SIGKILL)
    with pytest.raises(FedveilError, match="NVFlare ended"):
        ask(killed, b"anybody?")
    killed.close()
    coordinator.transport = FlareTransport(kits.coordinator)
    answers = dict(coordinator.transport.ask(dict.fromkeys(NAMES, b"hello"), START))
    assert answers == dict.fromkeys(NAMES, b"echo hello")


# A coordinator that is not honest


def replace_courier(kit: Path, path: str) -> None:
    file = kit / "local" / "resources.json"
    resources = json.loads(file.read_text())
    resources["components"][0]["path"] = path
    file.write_text(json.dumps(resources))


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """What sites say to a dishonest coordinator: `north`, as fedveil makes it, and `open`, without its gate."""
    kits = loopback_kits(tmp_path_factory.mktemp("attacked"), ("north", "open"))
    replace_courier(kits.coordinator, "evil_couriers.CommandingCourier")
    replace_courier(kits.site("open"), "evil_couriers.UngatedCourier")
    limits = kits.site("north") / "local" / "comm_config.json"
    limits.write_text(json.dumps(json.loads(limits.read_text()) | {"streaming_max_blob_size": SMALL_LIMIT}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
        with ChildProcesses(kits.folder) as sites, FlareTransport(kits.coordinator) as transport:
            for name in kits.sites:
                start(sites, kits, name)
            assert transport.wait_for(frozenset(kits.sites), START) == frozenset()

            def carry_out(site: str, **what: str | int) -> dict[str, str]:
                (answer,) = dict(transport.ask({site: json.dumps(what).encode()}, 60)).values()
                reply: dict[str, str] = json.loads(answer)
                return reply

            yield carry_out


def test_a_command_to_list_files_is_refused_by_a_site_and_obeyed_without_its_gate(attack: Any) -> None:
    refused = attack("north", kind="shell", command="ls startup")
    assert refused["code"] == "unauthenticated"
    assert "takes no jobs, no commands and no code" in refused["error"]
    assert "client.key" in attack("open", kind="shell", command="ls startup")["said"]


@pytest.mark.parametrize("kind", ["deploy", "stop", "decoded"])
def test_code_and_orders_of_the_coordinator_are_refused(attack: Any, kind: str) -> None:
    refused = attack("north", kind=kind, app=b"PK a zip file of code".hex())
    assert refused["code"] == "unauthenticated"
    assert "takes no jobs" in refused["error"]


def test_a_message_beyond_the_limit_is_refused_before_memory_is_taken_for_it(attack: Any) -> None:
    refused = attack("north", kind="large", size=SMALL_LIMIT + 1)
    assert refused["code"] == "comm_error"
    assert f"exceeds configured limit {SMALL_LIMIT}" in refused["error"]
    assert attack("north", kind="large", size=SMALL_LIMIT - 10)["code"] == "ok"


def test_the_attacked_site_goes_on(attack: Any) -> None:
    assert attack("north", kind="stop")["code"] == attack("north", kind="stop")["code"] == "unauthenticated"


def packed_app(executor: str, code: str | None = None) -> str:
    """A job's files, as NVFlare carries them."""
    packed = io.BytesIO()
    work = {"tasks": ["*"], "executor": {"path": executor, "args": {}}}
    with zipfile.ZipFile(packed, "w") as file:
        config = {"format_version": 2, "executors": [work], "components": []}
        file.writestr("config/config_fed_client.json", json.dumps(config))
        if code is not None:
            file.writestr("custom/evil_trainer.py", code)
    return packed.getvalue().hex()


def open_wide(kit: Path) -> None:
    """Take the gate away, let unsigned jobs in, and bring what launches jobs: what is left is NVFlare's own lists."""
    replace_courier(kit, "evil_couriers.UngatedCourier")
    parts = {
        "resource_manager": "resource_managers.passthrough_resource_manager.PassthroughResourceManager",
        "resource_consumer": "resource_consumers.passthrough_resource_consumer.PassthroughResourceConsumer",
        "process_launcher": "job_launcher.client_process_launcher.ClientProcessJobLauncher",
    }
    local, startup = kit / "local" / "resources.json", kit / "startup" / "fed_client.json"
    resources = json.loads(local.read_text())
    resources["components"] += [
        {"id": name, "path": f"nvflare.app_common.{path}", "args": {}} for name, path in parts.items()
    ]
    local.write_text(json.dumps(resources))
    startup.write_text(json.dumps(json.loads(startup.read_text()) | {"require_signed_jobs": False}))


@pytest.mark.slow
def test_behind_the_gate_nvflares_own_lists_refuse_code_and_classes_of_a_running_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`shut` has the kit of a site without its gate, `wide` is `open_wide`; on `listed` a class was put on its list."""
    kits = loopback_kits(tmp_path, ("shut", "wide", "listed"))
    replace_courier(kits.coordinator, "evil_couriers.CommandingCourier")
    replace_courier(kits.site("shut"), "evil_couriers.UngatedCourier")
    for name in ("wide", "listed"):
        open_wide(kits.site(name))
    named, mark = "evil_couriers.MarkingExecutor", tmp_path / "it ran"
    resources = kits.site("listed") / "local" / "resources.json"
    table = json.loads(resources.read_text())
    resources.write_text(json.dumps({**table, "class_allow_list": [*table["class_allow_list"], named]}))
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    monkeypatch.setenv("EVIL_MARK", str(mark))
    with ChildProcesses(kits.folder) as sites, FlareTransport(kits.coordinator) as transport:
        for name in kits.sites:
            start(sites, kits, name)
        assert transport.wait_for(frozenset(kits.sites), START) == frozenset()

        def say(site: str, kind: str, **what: Any) -> str:
            (answer,) = dict(transport.ask({site: json.dumps({"kind": kind, **what}).encode()}, 60)).values()
            return str(json.loads(answer)["said"])

        code = f"open({str(mark)!r}, 'w')"
        assert "signed deploy is required" in say("shut", "deploy", app=packed_app(named))
        for meta in ({}, {"byoc": True}):  # the files tell that there is code, whatever the coordinator says
            assert "BYOC not permitted" in say("wide", "deploy", app=packed_app("evil_trainer.T", code), meta=meta)
        for site in ("wide", "listed"):
            assert "deployed" in say(site, "deploy", app=packed_app(named), meta={"job_id": "job"})
            assert "Start" in say(site, "begin", meta={"job_id": "job"})
        wait_for_text(kits.site("wide") / "job" / "log.txt", f"Component '{named}'")
        assert "is not in allow_list" in (kits.site("wide") / "job" / "log.txt").read_text()
        assert not mark.exists() or "listed" in mark.read_text()
        wait_for_text(mark, "listed")  # a control: it was the list that kept the class from being made
        assert "wide" not in mark.read_text()


def test_a_directory_that_is_no_kit_is_said(tmp_path: Path) -> None:
    with pytest.raises(FedveilError, match="not the directory of a coordinator"):
        FlareTransport(tmp_path)


def test_nvflare_ends_with_its_parent_even_where_it_hangs(tmp_path: Path) -> None:
    """Its client waits for ever where its certificate does not fit the authority's."""
    kits = loopback_kits(tmp_path, ("north",))
    (tmp_path / "other").mkdir()
    make_authority(tmp_path / "other", "other")
    other = (tmp_path / "other" / "authority.crt").read_bytes()
    (kits.site("north") / "startup" / "rootCA.pem").write_bytes(other)
    with ChildProcesses(tmp_path) as processes:
        start(processes, kits, "north")
        wait_for_text(kits.site("north") / "log.txt", "registered aux handler")
        parent = processes.process_id("north")
        (node,) = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    end = time.monotonic() + 30
    while Path(f"/proc/{node}").exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not Path(f"/proc/{node}").exists()


def test_without_nvflare_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("fedveil.runtimes.nvflare.find_spec", lambda name: None)
    with pytest.raises(FedveilError, match=r"fedveil\[federation\]"):
        FlareTransport(tmp_path)
    with pytest.raises(FedveilError, match=r"fedveil\[federation\]"):
        demonstrate(tmp_path / "demo", SilentReporter(), lambda line: None)
    assert not (tmp_path / "demo").exists()

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from nvflare.apis.app_validation import AppValidationKey
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.fl_exception import UnsafeComponentError
from nvflare.apis.workspace import Workspace
from nvflare.app_common.default_component_policy import DEFAULT_CLASS_ALLOW_LIST
from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer
from nvflare.fuel.sec.authz import AuthzContext, Person
from nvflare.private.fed.utils.fed_utils import require_signed_jobs
from nvflare.security.security import FLAuthorizer

from fedveil.core.errors import FedveilError
from fedveil.runtimes.certificates import authority_certificate, request_certificate, sign_site
from fedveil.runtimes.loopback import LoopbackKits, loopback_kits
from fedveil.runtimes.startup_kit import COURIERS, LARGEST_MESSAGE, Credentials, write_coordinator_kit, write_site_kit


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> LoopbackKits:
    return loopback_kits(tmp_path_factory.mktemp("kits"), ("north",))


def test_only_couriers_pass_nvflares_own_list_of_classes(kits: LoopbackKits) -> None:
    authorizer, workspace = ComponentPathAuthorizer(), Workspace(str(kits.site("north")), "north")
    for allowed in COURIERS.values():
        authorizer.authorize_component_config({"path": allowed}, workspace=workspace)
    refused = [*DEFAULT_CLASS_ALLOW_LIST, "os.system", "fedveil.runs.run.run", "custom.Trainer"]
    assert any("StatisticsExecutor" in path for path in refused)
    assert any("PSIExecutor" in path for path in refused)
    for path in refused:
        with pytest.raises(UnsafeComponentError):
            authorizer.authorize_component_config({"path": path}, workspace=workspace)


def test_nvflares_list_can_be_switched_off_by_the_coordinator_which_is_why_there_is_a_gate(kits: LoopbackKits) -> None:
    context = FLContext()
    context.set_prop(FLContextKey.JOB_META, {AppValidationKey.BYOC: True})
    workspace = Workspace(str(kits.site("north")), "north")
    ComponentPathAuthorizer().authorize_component_config({"path": "os.system"}, fl_ctx=context, workspace=workspace)


@pytest.mark.parametrize("party", ["north", "coordinator"])
def test_no_role_has_any_right(kits: LoopbackKits, party: str) -> None:
    policy = json.loads((kits.folder / party / "local" / "authorization.json").read_text())
    authorizer = FLAuthorizer("fedveil", policy)
    for role in ("project_admin", "org_admin", "lead", "member"):
        person = Person("somebody", "fedveil", role)
        for right in ("submit_job", "byoc", "shell_commands", "operate", "view", "download_job", "cat", "deploy_app"):
            allowed, _ = authorizer.authorize(AuthzContext(right=right, user=person, submitter=person))
            assert not allowed, (role, right)


@pytest.mark.parametrize("party", ["north", "coordinator"])
def test_a_kit_has_no_launcher_no_log_streaming_and_bounded_messages(kits: LoopbackKits, party: str) -> None:
    local = kits.folder / party / "local"
    resources, communication = (
        json.loads((local / name).read_text()) for name in ("resources.json", "comm_config.json")
    )
    assert not [part for part in resources["components"] if "launcher" in part["path"] or "log" in part["path"]]
    assert resources["allow_log_streaming"] is False
    assert resources["class_list_enforcement_mode"] == "enforce"
    assert communication["streaming_max_blob_size"] == communication["max_message_size"] == LARGEST_MESSAGE
    assert communication["allow_adhoc_conns"] is False
    assert communication["internal"]["resources"] == {"host": "127.0.0.1", "connection_security": "mtls"}


def test_keys_are_their_owners_alone_and_no_kit_has_the_authoritys(kits: LoopbackKits) -> None:
    authority_key = (kits.authority / "authority.key").read_bytes()
    for party in ("north", "coordinator"):
        files = [path for path in (kits.folder / party).rglob("*") if path.is_file()]
        keys = [path for path in files if b"PRIVATE KEY" in path.read_bytes()]
        assert len(keys) == 1
        assert keys[0].stat().st_mode & 0o777 == 0o600
        assert all(path.read_bytes() != authority_key for path in files)


def test_jobs_would_have_to_be_signed(kits: LoopbackKits) -> None:
    assert require_signed_jobs(Workspace(str(kits.site("north")), "north"), "fed_client.json")


def test_a_kit_is_not_made_of_what_does_not_fit(kits: LoopbackKits, tmp_path: Path) -> None:
    certificate = sign_site(kits.authority, request_certificate(tmp_path / "east.key", "east"), "east")
    root = authority_certificate(kits.authority)
    request_certificate(tmp_path / "other.key", "east")
    wrong = Credentials(tmp_path / "other.key", certificate, root)
    with pytest.raises(FedveilError, match="another key"):
        write_site_kit(tmp_path / "kit", wrong, federation="f", host="localhost", port=1)
    assert not (tmp_path / "kit").exists()
    right = Credentials(tmp_path / "east.key", certificate, root)
    with pytest.raises(FedveilError, match="coordinator"):
        write_coordinator_kit(tmp_path / "kit", right, federation="f", host="localhost", port=1, sites=("east",))


def test_a_kit_in_a_relative_folder_names_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVFlare's storage refuses others, long after the kit was made."""
    monkeypatch.chdir(tmp_path)
    made = loopback_kits(Path("here"), ("north",))
    texts = "".join(path.read_text(encoding="utf-8") for path in made.coordinator.rglob("*.json"))
    assert str(tmp_path / made.coordinator / "jobs" / "snapshots") in texts
    assert '"here/' not in texts

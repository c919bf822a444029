"""A certificate holds as it was signed, and in no other form: every ε follows from its composition alone."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import re
import shutil
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any, get_args, get_type_hints

import pytest
from certificates import SIGNATORY, TAMPERINGS, changed, leaves, signed_anew, small_run, tampered

from fedveil.accounting.compose import Term, certify, composition, describe
from fedveil.accounting.events import Step
from fedveil.certificate.bound_figures import risk_figures
from fedveil.certificate.canonical_json import file_form
from fedveil.certificate.document import FORMAT_VERSION, SignedCertificate
from fedveil.certificate.typed_reading import as_plain
from fedveil.certificate.verify import CertificateRefused, countersign, verify_certificate
from fedveil.core.errors import FedveilError
from fedveil.core.signing import SigningKey
from fedveil.studies.certify import certify_run
from fedveil.studies.replayed_certificate import check_replayed

KEY = SigningKey.generate()


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("certified") / "run")


@pytest.fixture(scope="module")
def content(run_directory: Path) -> bytes:
    return certify_run(run_directory, KEY, signatory=SIGNATORY, justification="a trial").path.read_bytes()


@pytest.fixture
def path(tmp_path: Path, content: bytes) -> Path:
    place = tmp_path / "certificate.json"
    place.write_bytes(content)
    return place


def refusal(path: Path, **options: Any) -> str:
    """The one line with which a certificate is refused."""
    with pytest.raises(FedveilError) as caught:
        verify_certificate(path, **options)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    return str(caught.value)


def test_a_certificate_holds_and_says_so_in_one_line(path: Path, run_directory: Path) -> None:
    checked = verify_certificate(path, key=KEY.public, run=run_directory)
    assert checked.sound
    line = checked.line()
    assert "\n" not in line
    assert "holds: Whoever sees everything the server saw guesses right at most" in line
    assert SIGNATORY in line


def test_its_first_field_is_what_needs_attention(content: bytes) -> None:
    table = json.loads(content)
    assert list(table) == ["certificate", "signatures"]
    assert next(iter(table["certificate"])) == "attention"


@pytest.mark.parametrize("number", range(70))
def test_a_tampered_file_is_refused(path: Path, content: bytes, number: int) -> None:
    path.write_bytes(tampered(content, number))
    refusal(path, key=KEY.public)


@pytest.mark.slow
def test_a_thousand_tampered_files_are_refused(path: Path, content: bytes) -> None:
    """Of every kind of tampering at least fifty, and 1,000 in all."""
    refused: dict[str, set[bytes]] = {}
    for number in range(1000, 3100):
        spoilt = tampered(content, number)
        path.write_bytes(spoilt)
        refusal(path, key=KEY.public)
        refused.setdefault(TAMPERINGS[number % len(TAMPERINGS)].__name__, set()).add(spoilt)
    counts = {name: len(files) for name, files in refused.items()}
    print(counts)
    assert sum(counts.values()) >= 1000
    assert len(counts) == len(TAMPERINGS)
    few = {"_other_spelling", "_other_version", "_without_caveats", "_exchanged_cells"}  # there are not so many ways
    assert all(count >= 50 for name, count in counts.items() if name not in few)


def test_a_smaller_epsilon_is_refused_though_signed_with_the_right_key(path: Path, content: bytes) -> None:
    table = json.loads(content)
    cells = [at for at in leaves(table) if at[-1] == "epsilon" and isinstance(value_at(table, at), float)]
    cells = [at for at in cells if at[-2] in ("promised", "spent", "bound", "copies") and value_at(table, at) > 0]
    assert len(cells) > 10
    for at in cells:
        path.write_bytes(signed_anew(changed(table, at, lambda value: value * 0.999), KEY))
        assert "is stated, and its composition gives" in refusal(path)


@pytest.mark.parametrize("figure", ["advantage", "right_guess", "mean"])
def test_a_smaller_risk_is_refused_though_signed_with_the_right_key(path: Path, content: bytes, figure: str) -> None:
    table = json.loads(content)
    at = next(at for at in leaves(table) if at[-1] == figure and "spent" in at)
    path.write_bytes(signed_anew(changed(table, at, lambda value: value * 0.99), KEY))
    assert "risk" in refusal(path)


def test_a_smaller_rate_of_hits_is_refused_though_signed_with_the_right_key(path: Path, content: bytes) -> None:
    table = json.loads(content)
    at = ("certificate", "cells", 1, "spent", "risk", "rates", 1, 1)
    assert value_at(table, (*at[:-1], 0)) == 0.01
    path.write_bytes(signed_anew(changed(table, at, lambda value: value * 0.99), KEY))
    assert "risk" in refusal(path)


def test_a_composition_with_less_in_it_is_refused_though_signed_with_the_right_key(path: Path, content: bytes) -> None:
    table = json.loads(content)
    at = next(at for at in leaves(table) if at[-1] == "noise_multiplier")
    path.write_bytes(signed_anew(changed(table, at, lambda value: value / 2), KEY))
    assert "its composition" in refusal(path)


def value_at(table: Any, at: tuple[Any, ...]) -> Any:
    for key in at:
        table = table[key]
    return table


def test_an_invented_composition_is_refused_beside_the_run(path: Path, content: bytes, run_directory: Path) -> None:
    table = json.loads(content)
    parts = composition(Term(((Step("gaussian", 1000.0), 1),)))
    for cell in table["certificate"]["cells"]:
        for basis in ("promised", "spent"):
            if cell[basis]["composition"]:
                cell[basis] |= {
                    "composition": as_plain(parts),
                    "described": describe(parts),
                    "epsilon": certify(parts, cell["delta"]).epsilon,
                    "risk": as_plain(risk_figures(parts)),
                }
    table["certificate"]["verdict"] = table["certificate"]["verdict"].replace(
        table["certificate"]["verdict"].split("at most ")[1].split(" times")[0], "50.1"
    )
    path.write_bytes(signed_anew(table, KEY))
    checked = verify_certificate(path, run=run_directory)  # it agrees with itself, and the files are the certified ones
    with pytest.raises(CertificateRefused, match="and the run gives"):
        check_replayed(checked, run_directory)


def drop_caveats(table: Any) -> None:
    table["certificate"]["cells"][1]["caveats"] = []


def other_training(table: Any) -> None:
    table["certificate"]["training"]["rounds_planned"] = 1


def other_sites(table: Any) -> None:
    table["certificate"]["sites"][0]["name"] = "elsewhere"


def other_randomness(table: Any) -> None:
    table["certificate"]["randomness"]["source"] = "seed"


@pytest.mark.parametrize("change", [drop_caveats, other_training, other_sites, other_randomness])
def test_what_the_run_says_otherwise_is_refused_beside_it(
    path: Path, content: bytes, run_directory: Path, change: Any
) -> None:
    table = json.loads(content)
    change(table)
    path.write_bytes(signed_anew(table, KEY))
    checked = verify_certificate(path, run=run_directory)
    with pytest.raises(CertificateRefused):
        check_replayed(checked, run_directory)


def test_the_certificate_of_a_run_passes_beside_it(path: Path, run_directory: Path) -> None:
    check_replayed(verify_certificate(path, run=run_directory), run_directory)


def test_a_verdict_that_its_cells_do_not_give_is_refused(path: Path, content: bytes) -> None:
    at = ("certificate", "verdict")
    path.write_bytes(signed_anew(changed(json.loads(content), at, lambda _: "Perfectly private."), KEY))
    assert "verdict" in refusal(path)


def test_a_caveat_that_voids_shows_in_the_verdict(path: Path, content: bytes) -> None:
    """A void ε can't be presented as one that holds, whatever the sentence says."""
    table = json.loads(content)
    for cell in table["certificate"]["cells"]:
        cell["caveats"].append({"kind": "leaked-bound", "text": "the bound leaks"})
    path.write_bytes(signed_anew(table, KEY))
    assert "verdict" in refusal(path)


def test_another_key_is_refused(path: Path, content: bytes) -> None:
    assert "not with" in refusal(path, key=SigningKey.generate().public)
    thief = SigningKey.generate()
    at = ("certificate", "signatories", 0, "key")
    path.write_bytes(signed_anew(changed(json.loads(content), at, lambda _: thief.public.hex), thief))
    assert verify_certificate(path).sound  # nobody said whose key it must be, and the line says that
    assert "whose it is was not checked" in verify_certificate(path).line()
    assert "signed with the key" in refusal(path, key=KEY.public)


def test_an_expired_certificate_is_refused(path: Path) -> None:
    later = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=366)
    assert "expired on" in refusal(path, today=later)


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (("certificate", "version"), 2, "it is of version 2"),
        (("certificate", "version"), True, "it is of version True"),
        (("certificate", "format"), "another", "not a certificate of fedveil"),
        (("certificate", "cells", 1, "unit"), "person", "unknown kind 'person'"),
        (("certificate", "cells", 1, "spent", "composition", 0, "steps", 0, 0, "kind"), "laplace", "laplace"),
        (("certificate", "cells", 1, "spent", "composition", 0, "steps", 0, 1), 10**15, "can't be accounted|gives"),
        (("certificate", "cells", 1, "spent", "composition", 0, "steps", 0, 1), -1, "can't be accounted|can't have"),
        (("certificate", "cells", 1, "spent", "epsilon"), -1.0, "negative"),
        (("certificate", "cells", 1, "spent", "epsilon"), "nan", "not a number"),
        (("certificate", "cells", 1, "delta"), 2.0, "delta"),
        (("certificate", "cells", 1, "spent", "composition"), None, "a finite ε has a composition"),
        (("certificate", "cells", 0, "spent", "reason"), "", "exactly where a reason"),
        (("certificate", "expires"), "never", "isoformat"),
        (("certificate", "signatories", 0, "key"), "zz", "64 hexadecimal"),
        (("certificate", "digests"), 5, "not a table"),
    ],
)
def test_a_wrong_value_is_one_clear_line(path: Path, content: bytes, at: Any, value: Any, said: str) -> None:
    path.write_bytes(file_form(changed(json.loads(content), at, lambda _: value)))
    line = refusal(path)
    assert re.search(f"{said}|is not one of this content", line), line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "not whole JSON"),
        (b"[]\n", "not a certificate"),
        (b"null\n", "not a certificate"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"certificate": NaN}', "NaN is not a number"),
        (b'{"certificate": 1e999}', "too large"),
        (b'{"certificate": ' + b"9" * 30 + b"}", "too large"),
        (b'{"certificate": ' + b"9" * 5000 + b"}", "too long"),
        (b"[" * 200_000, "nested too deeply"),
        (b" " * 4_000_001, "larger than"),
    ],
)
def test_what_is_no_certificate_is_one_clear_line(path: Path, text: bytes, said: str) -> None:
    path.write_bytes(text)
    assert said in refusal(path)


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none.json")


# The run beside it


@pytest.mark.parametrize("name", ["spec.toml", "run.json", "model.safetensors"])
def test_another_file_in_the_run_is_refused(path: Path, run_directory: Path, tmp_path: Path, name: str) -> None:
    other = shutil.copytree(run_directory, tmp_path / "other")
    with open(other / name, "ab") as file:
        file.write(b" ")
    assert "is not what was certified" in refusal(path, run=other)


def test_another_run_is_refused(path: Path, tmp_path: Path) -> None:
    other = small_run(tmp_path / "other", rounds=1)
    assert "is not what was certified" in refusal(path, run=other)
    assert "not a run directory" in refusal(path, run=tmp_path)


# Without PyTorch, and quickly

BLOCKED = """
import sys, time
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "safetensors", "sklearn", "pandas"):
            raise ImportError(f"{name} is not here")
sys.meta_path.insert(0, Block())
from fedveil.cli import main
sys.argv = ["fedveil", "verify", *sys.argv[1:]]
main()
"""


def test_it_is_checked_without_pytorch(path: Path, run_directory: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, str(path), "--run", str(run_directory)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "holds: " in done.stdout
    assert "its ledger was not replayed" in done.stdout


def test_ten_compositions_are_computed_again_in_two_seconds(path: Path, content: bytes) -> None:
    """Processor time, since the machine may be busy; five cells, each with two compositions that no other cell has."""
    table = json.loads(content)
    random = Random(5)
    finite = [cell for cell in table["certificate"]["cells"] if cell["promised"]["composition"]][:5]
    assert len(finite) == 5
    for cell in finite:
        for basis in ("promised", "spent"):
            steps = ((Step("poisson", 1 + random.random(), 0.01 + 0.05 * random.random()), 1000),)
            parts = composition(Term(steps))
            cell[basis] |= {
                "composition": as_plain(parts),
                "described": describe(parts),
                "epsilon": certify(parts, cell["delta"]).epsilon * 1.01,
                "risk": as_plain(risk_figures(parts)),
                "relation": "add-or-remove",
            }
    path.write_bytes(signed_anew(table, KEY))
    done = subprocess.run([sys.executable, "-c", TIMED, str(path)], capture_output=True, text=True, check=False)
    assert "verdict" in done.stdout  # every number was computed; only the sentence is that of the old ones
    assert float(done.stdout.split()[-1]) < 2, done.stdout


TIMED = """
import sys, time
from fedveil.certificate.verify import CertificateRefused, verify_certificate
from fedveil.core.errors import FedveilError
try:
    print(verify_certificate(sys.argv[1]).line())
except FedveilError as error:
    print(error)
print(time.process_time())
"""


# Several signatures


def test_a_federation_countersigns(run_directory: Path, tmp_path: Path) -> None:
    one, two = SigningKey.generate(), SigningKey.generate()
    place = tmp_path / "certificate.json"
    written = certify_run(
        run_directory,
        KEY,
        signatory=SIGNATORY,
        out=place,
        sites={"cleveland": one.public, "switzerland": two.public},
    )
    assert written.waiting_for == ("site cleveland", "site switzerland")
    assert "not yet signed by site cleveland, site switzerland" in refusal(place)
    assert countersign(place, two).waiting_for == ("site cleveland",)
    assert "not yet signed by site cleveland" in refusal(place)
    with pytest.raises(FedveilError, match="has signed this certificate already"):
        countersign(place, two)
    with pytest.raises(FedveilError, match="is none of those that the certificate names"):
        countersign(place, SigningKey.generate())
    assert countersign(place, one).waiting_for == ()
    assert (
        "countersigned by 2 sites for their own bounds: cleveland, switzerland"
        in verify_certificate(place, key=KEY.public).line()
    )
    whole = json.loads(place.read_bytes())
    for spoilt in (
        {**whole, "signatures": whole["signatures"][:-1]},
        {**whole, "signatures": whole["signatures"][::-1]},
        {**whole, "signatures": [*whole["signatures"], whole["signatures"][0]]},
        changed(whole, ("signatures", 1, "signature"), lambda _: whole["signatures"][2]["signature"]),
    ):
        place.write_bytes(file_form(spoilt))
        refusal(place)


def test_nobody_countersigns_what_does_not_hold(path: Path, content: bytes) -> None:
    at = ("certificate", "cells", 1, "spent", "epsilon")
    path.write_bytes(signed_anew(changed(json.loads(content), at, lambda value: value / 2), KEY))
    with pytest.raises(CertificateRefused, match="its composition gives"):
        countersign(path, KEY)


# The version


def fields_of(kind: Any, seen: dict[str, list[str]]) -> dict[str, list[str]]:
    """The fields of a dataclass and of all that stand in it, by the name of the class."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type) and kind.__name__ not in seen:
        seen[kind.__name__] = [field.name for field in dataclasses.fields(kind)]
        for hint in get_type_hints(kind).values():
            fields_of(hint, seen)
    elif isinstance(kind, type) and issubclass(kind, StrEnum):
        seen[kind.__name__] = [str(member) for member in kind]
    for inner in get_args(kind):
        fields_of(inner, seen)
    return seen


def test_whoever_changes_what_a_certificate_holds_must_raise_its_version() -> None:
    """Also a new field of the accountant's steps: what an older version wrote would no longer be read.

    Only while no release has written a version may its fields change under the same number.
    """
    text = json.dumps(fields_of(SignedCertificate, {}), sort_keys=True)
    assert (FORMAT_VERSION, hashlib.sha256(text.encode()).hexdigest()[:16]) == (1, "6b51928599bb712f"), text

"""What is exported for the deployments registry is what its own checks accept."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from certificates import SIGNATORY, small_run
from jsonschema import Draft7Validator

from fedveil.certificate.document import Certificate
from fedveil.certificate.registry_entry import ADJACENT, registry_entry, write_registry_entry, yaml_text
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Relation
from fedveil.core.signing import SigningKey
from fedveil.studies.certify import certify_run

SCHEMA = yaml.safe_load((Path(__file__).parent / "deployments-schema.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    run = small_run(tmp_path_factory.mktemp("registered") / "run")
    why = "tested: “quotes”, \\ and #\n  of two lines "
    key = SigningKey.generate()
    return certify_run(run, key, signatory=SIGNATORY, justification=why, release=True).signed.certificate


def problems(entry: Any) -> list[str]:
    validator = Draft7Validator(SCHEMA, format_checker=Draft7Validator.FORMAT_CHECKER)
    return [f"{list(error.path)}: {error.message}" for error in validator.iter_errors(entry)]


def paths_of_tier(table: dict[str, Any], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The fields that the schema wants of tiers 1 to 3."""
    listed = []
    for key, entry in table.get("properties", {}).items():
        listed += [(*above, key)] if "tier" in entry else []
        listed += paths_of_tier(entry, (*above, key))
    return listed


def test_the_file_is_valid_and_reads_back_as_what_was_meant(certificate: Certificate, tmp_path: Path) -> None:
    path = tmp_path / "a_trial_2026.yaml"
    write_registry_entry(certificate, path)
    read = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert problems(read) == []
    assert read == registry_entry(certificate, "a_trial_2026")
    assert read["tier"] == 3
    assert isinstance(read["deployment"]["privacy_loss"]["privacy_parameters"]["delta"], float)


def test_the_registrys_own_style_checks_pass(certificate: Certificate, tmp_path: Path) -> None:
    text = yaml_text(registry_entry(certificate, "a_trial"))
    styles = {token.style for token in yaml.scan(text) if hasattr(token, "style")}
    assert styles <= {None, '"', "|"}
    assert not re.search(r"\\\\[^()]", registry_entry(certificate, "a")["deployment"]["basic"]["description"])


def test_every_field_of_tier_three_is_there(certificate: Certificate) -> None:
    entry = registry_entry(certificate, "a_trial")
    wanted = paths_of_tier(SCHEMA["properties"]["deployment"], ("deployment",))
    assert len(wanted) > 20
    optional = {"data_product_sector", "data_source_type_details", "rho"}
    for path in wanted:
        if path[-1] in optional:
            continue
        place: Any = entry
        for key in path:
            assert key in place, path
            place = place[key]
        assert place not in ("", None), path


def test_its_epsilon_is_the_verdicts_and_never_rounded_down(certificate: Certificate) -> None:
    stated = registry_entry(certificate, "a")["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"]
    cell = next(cell for cell in certificate.cells if cell.name == "record × server")
    assert cell.certified.epsilon <= stated < cell.certified.epsilon * 1.001


def test_the_schema_refuses_what_is_wrong(certificate: Certificate) -> None:
    entry = registry_entry(certificate, "a")
    entry["deployment"]["basic"]["publication_date"] = "1/1/2026"
    entry["surprise"] = 1
    assert len(problems(entry)) == 2


@pytest.mark.parametrize("name", ["Trial.yaml", "trial.yml", "a-b.yaml"])
def test_a_name_that_the_registry_does_not_take_is_refused(certificate: Certificate, tmp_path: Path, name: str) -> None:
    with pytest.raises(FedveilError, match="lowercase"):
        write_registry_entry(certificate, tmp_path / name)


def test_a_certificate_that_tells_who_took_part_is_not_registered(certificate: Certificate) -> None:
    with pytest.raises(FedveilError, match="made for release"):
        registry_entry(replace(certificate, for_release=False), "a")


def test_every_relation_has_its_words() -> None:
    assert set(ADJACENT) == set(Relation)


@pytest.mark.parametrize("number", [1e-5, 1e-12, 0.5, 3.0, 1e22, 1.5e-7])
def test_numbers_are_numbers_in_yaml(number: float) -> None:
    assert yaml.safe_load(yaml_text({"value": number})) == {"value": number}

"""All keys of a spec, and which one somebody means who knows another library."""

from __future__ import annotations

import pytest

from fedveil.config.key_synonyms import SYNONYMS
from fedveil.config.spec import resolve
from fedveil.config.spec_keys import spec_keys, suggested_key
from fedveil.core.errors import FedveilError

KNOWN = {one.key for one in spec_keys()}


def test_every_key_of_a_spec_that_is_written_out_is_listed() -> None:
    def keys(table: dict[str, object], before: str = "") -> list[str]:
        found = []
        for name, value in table.items():
            key = f"{before}{name}"
            free = key in ("model.options", "data.sites")  # whatever the network takes, or the sites are called
            found += keys(value, f"{key}.") if isinstance(value, dict) and value and not free else [key]
        return found

    parts = {key.rsplit(".", 1)[0] for key in KNOWN} | {key.split(".")[0] for key in KNOWN}
    for name in ("fed-cdp", "fed-sdp", "geyer-private", "prifedsync", "dssgd", "private-clients"):
        for key in keys(resolve(name, {"data.name": "cancer"}).to_dict()):
            ways = [key, *(one.key for one in spec_keys() if "schedule" in one.type and key.startswith(f"{one.key}."))]
            assert {*ways} & (KNOWN | parts), key


@pytest.mark.parametrize("key", sorted(set(SYNONYMS.values())))
def test_every_synonym_names_a_key_or_a_part(key: str) -> None:
    assert key in KNOWN or any(one.startswith(f"{key}.") for one in KNOWN)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("lr", "local.rate"),
        ("LR", "local.rate"),
        ("learning-rate", "local.rate"),
        ("local.lr", "local.rate"),
        ("epsilon", "privacy.epsilon"),
        ("server.noise_multiplier", "server.sigma"),
        ("max_grad_norm", "example.clip.bound"),
        ("data.cleints", "data.clients"),
        ("batchsize", "batch.size"),
        ("foo.bar", None),
    ],
)
def test_a_key_by_another_name_is_recognised(typed: str, meant: str | None) -> None:
    assert suggested_key(typed) == meant


@pytest.mark.parametrize(
    ("method", "key", "said"),
    [
        ("fed-cdp", "lr", "lr: unknown key; did you mean local.rate?"),
        ("fed-cdp", "local.lr", "local: unknown key lr; did you mean rate?"),
        ("fedavg", "example.sigma", "example.clip must be given too; or begin with a method that has it: fed-cdp"),
        ("fedavg", "server.sigma", "server.clip must be given too; or begin with a method that has it: fed-sdp"),
        ("fedavg", "upload.clip", "upload.sigma must be given too; or begin with a method that has it: fed-sdp-client"),
    ],
)
def test_an_error_says_what_was_meant_or_is_missing(method: str, key: str, said: str) -> None:
    with pytest.raises(FedveilError) as raised:
        resolve(method, {key: {"bound": 1.0} if key.endswith("clip") else 1.0})
    assert said in str(raised.value)


def test_a_whole_mechanism_can_be_given_to_a_method_without_noise() -> None:
    spec = resolve("fedavg", {"example.sigma": 1.0, "example.clip": {"bound": 2.0}})
    assert spec.method.example is not None


class Network:
    """Stands for a network at the top of a module."""


def test_a_class_is_written_down_by_the_name_under_which_it_is_found_again() -> None:
    spec = resolve("fedavg", {"model.name": Network})
    assert spec.model.name == f"{__name__}:Network"
    assert f"{__name__}:Network" in spec.to_toml()


def test_a_class_that_nobody_could_find_again_is_refused() -> None:
    class Hidden: ...

    for factory in (Hidden, lambda shape, classes: None):
        with pytest.raises(FedveilError, match=r"model.name: .* can't be found again by its name"):
            resolve("fedavg", {"model.name": factory})

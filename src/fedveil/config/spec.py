"""What a run is made of: data, model, method and seed, as one small TOML file or as dataclasses."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

import tomli_w

from fedveil.accounting.context import Budget, Context
from fedveil.config.convert import structure, unstructure
from fedveil.config.data_spec import DataSpec, data_table
from fedveil.config.front_doors import DOORS, Choice, as_settings, choices_for, is_stated
from fedveil.config.merge import ABSENT, difference, merge, set_dotted, without
from fedveil.config.public_facts import facts_of
from fedveil.config.site_settings import absolute_files, file_task, with_all_sites
from fedveil.config.spec_keys import suggested_key
from fedveil.core.checks import FieldError, count, not_negative, positive
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.guarantee import Caveat
from fedveil.core.objectives import Objective
from fedveil.core.openness import OWN_TESTS, Openness, network_caveats
from fedveil.core.suggestions import did_you_mean
from fedveil.core.types import Population, Unit, View
from fedveil.data.dataset import Dataset
from fedveil.data.known_sets import task_of
from fedveil.mechanisms.right_counts import RightCounts
from fedveil.method import Method
from fedveil.zoo import FED_AVG, ZOO, named

METHOD_KEYS = tuple(part.name for part in fields(Method))
PLACES = ("example", "upload", "server")
"""Where a method can add noise."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A network of `fedveil.models`, or `package.module:factory`, with options for its factory.

    `made_from` is declared by whoever brings a network: "public" if all that it holds before it is trained comes from
    code and public data. Those of `fedveil.models` are public.
    """

    name: str = "cnn"
    options: dict[str, Any] = field(default_factory=dict)
    made_from: Openness = Openness.UNDECLARED

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """What must be said with every guarantee on a training of this network."""
        return network_caveats(self.made_from) if ":" in self.name else ()


@dataclass(frozen=True, kw_only=True)
class EvaluationSpec:
    """The global model is evaluated every `every` rounds, and after the last.

    With `sigma`, real sites do it, on records that they hold out: they send counts with noise of this multiplier, and
    pay for it. Without, it is done where the training is begun.
    """

    every: int = 1
    sigma: float | None = None

    def __post_init__(self) -> None:
        count("every", self.every)
        if self.sigma is not None:
            positive("sigma", self.sigma)

    @property
    def counts(self) -> RightCounts | None:
        return None if self.sigma is None else RightCounts(self.sigma, self.every)


@dataclass(frozen=True, kw_only=True)
class PrivacySpec:
    """δ of every guarantee and, where `epsilon` is given, a budget that no client may pass: of what, against whom.

    `calibrate` solves σ for that budget before the run begins. `strict` promises nothing where private records are used
    in a way that no noise covers: a clipping bound read from them (refused), features or a network made with their
    statistics, an accuracy measured on them, or where nobody declared that this is not so.
    """

    delta: float = 1e-5
    epsilon: float | None = None
    unit: Unit = Unit.RECORD
    view: View = View.SERVER
    calibrate: bool = False
    strict: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise FieldError("delta", f"must be above 0 and below 1, not {self.delta}")
        not_negative("epsilon", 0.0 if self.epsilon is None else self.epsilon)
        if self.calibrate and self.epsilon is None:
            raise FieldError("calibrate", "needs the epsilon that the noise is solved for")

    @property
    def budget(self) -> Budget | None:
        """What no client may pass."""
        return None if self.epsilon is None else Budget(self.epsilon, self.delta, self.unit, self.view)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One run. `base` names the method of the zoo that `method` was made from.

    `choices` are what a front door chose for it, with reasons. They are part of the settings already.
    """

    base: str
    data: DataSpec
    model: ModelSpec
    method: Method
    evaluation: EvaluationSpec = field(default_factory=EvaluationSpec)
    privacy: PrivacySpec = field(default_factory=PrivacySpec)
    objective: Objective | None = None  # that of the data set's task
    seed: int | None = None
    choices: tuple[Choice, ...] = field(default=(), compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything spelt out, in the shape of the TOML file.

        Noise that is yet to be solved for is left out, and so is an objective that nobody asked for: it follows from
        the records.
        """
        method = unstructure(self.method)
        if self.privacy.calibrate:
            method |= {place: without(method[place], "sigma") for place in self.method.mechanisms}
        return {
            "method": self.base,
            "seed": ABSENT if self.seed is None else self.seed,
            "data": data_table(self.data),
            "model": unstructure(self.model),
            "evaluation": unstructure(self.evaluation),
            "privacy": unstructure(self.privacy),
            **({} if self.objective is None else {"objective": unstructure(self.objective, Objective)}),
            **method,
        }

    def to_toml(self) -> str:
        return tomli_w.dumps(self.to_dict())

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """What must be said with every guarantee of this spec, whatever the records are."""
        return (*self.model.caveats, *((OWN_TESTS,) if self.data.test else ()))

    def context(
        self,
        population: Population,
        layers: int,
        *,
        caveats: tuple[Caveat, ...],
        copies: int = 1,
        seeded: bool = False,
    ) -> Context:
        """What the accountant must know of this spec on a population. `caveats` are those of the records."""
        return Context(
            self.method,
            population,
            layers,
            self.privacy.delta,
            copies=copies,
            seeded=seeded or self.seed is not None,
            strict=self.privacy.strict,
            budget=self.privacy.budget,
            caveats=tuple(dict.fromkeys((*caveats, *self.caveats))),
            counts=self.evaluation.counts,
        )


Source = str | Path | Mapping[str, Any] | Spec
"""What a spec is made from: a method's name, a TOML file, a table of settings, or another spec."""


def resolve(
    source: Source = "fed-cdp",
    overrides: Mapping[str, Any] | None = None,
    *,
    task: Mapping[str, Any] | None = None,
    dataset: Dataset | None = None,
) -> Spec:
    """A spec from a method's name, a TOML file, a table or another spec, with dotted `overrides` on top.

    A front door chooses from public facts of the named data set, or of a `dataset` that is given.

    What is not given is filled in, from the first of these that has it: the method, the task (the data set's settings
    in the papers, or what suits records that were brought along), plain FedAvg.
    """
    if isinstance(source, Spec) and not overrides:
        return source
    return _complete(read_settings(source, overrides), task, dataset)


def read_settings(source: Source, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The settings that a source and the `overrides` give, before anything is filled in."""
    settings, overrides = _read(source), overrides or {}
    for key, value in overrides.items():
        settings = set_dotted(settings, key, value)
    if "local.steps" in overrides and "local.epochs" not in overrides:
        settings = set_dotted(settings, "local.epochs", ABSENT)  # epochs would win over steps
    model = settings.get("model")
    if isinstance(model, Mapping) and callable(model.get("name")):
        settings = {**settings, "model": {**model, "name": _name_of(model["name"])}}
    if "method" not in settings and not isinstance(source, Mapping | Spec):
        raise FedveilError(f'{source}: names no method; say which, as in method = "fed-cdp"')
    return settings


def _name_of(factory: Any) -> str:
    """`package.module:factory` of a class or function: by this name workers and a resumed run find it again."""
    module, name = getattr(factory, "__module__", ""), getattr(factory, "__qualname__", "")
    if not name.isidentifier() or getattr(sys.modules.get(module), name, None) is not factory:
        raise FedveilError(
            f"model.name: {name or factory!r} can't be found again by its name, which workers and a resumed run must;"
            " define it at the top of a module, as my_networks.py, and give my_networks.MyNetwork"
        )
    return f"{module}:{name}"


def _read(source: object) -> dict[str, Any]:
    if isinstance(source, Spec):
        return source.to_dict()
    if isinstance(source, Mapping):
        return dict(source)
    if str(source) in ZOO:
        return {"method": str(source)}
    if not isinstance(source, str | Path):
        kind = type(source).__name__
        raise ArgumentError(
            "source", f"must be a method's name, a spec file, a table of settings or a Spec, not {kind}"
        )
    path = Path(source)
    if path.suffix != ".toml" and not path.exists():
        if len(path.parts) > 1:
            raise FedveilError(f"{source}: there is no such file or directory")
        near = did_you_mean(str(source), ZOO) or f"; methods are {', '.join(ZOO)}"
        raise FedveilError(f"{source}: neither a method nor a spec file or a run{near}")
    if (path / "run.json").is_file():
        raise FedveilError(f"{path}: a run; give its spec ({path / 'spec.toml'}), or go on: fedveil resume {path}")
    if path.is_dir():
        raise FedveilError(f"{path}: a directory, and not a run (run.json is missing)")
    try:
        return absolute_files(tomllib.loads(path.read_text(encoding="utf-8")), path.parent)
    except OSError as error:
        raise FedveilError(f"{path}: can't be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FedveilError(f"{path}: not a TOML file ({error})") from None


def _complete(settings: dict[str, Any], task: Mapping[str, Any] | None, dataset: Dataset | None) -> Spec:
    base = settings.get("method", "fed-cdp")
    if not isinstance(base, str):
        raise FedveilError(f"method: expected the name of a method, not {base!r}")
    local = settings.get("local")
    if isinstance(local, Mapping) and "steps" in local and "epochs" not in local:
        settings = merge(settings, {"local": {"epochs": ABSENT}})  # stated steps replace the preset's epochs
    plain = unstructure(FED_AVG)
    whole = unstructure(named(base))
    settings = absolute_files(settings, Path.cwd())
    stated = settings.get("data", {})
    name = stated.get("name", "mnist") if isinstance(stated, dict) else "mnist"
    task = (file_task(stated) or task_of(str(name))) if task is None else task
    own = _laid_over(task, whole, plain)
    defaults = {"data": unstructure(DataSpec()), "model": {}, "evaluation": {}, "privacy": {}, **plain}
    defaults |= {"objective": None, "seed": None}
    table = merge(merge(merge(defaults, task), own), ZOO[base].settings)
    here = ZOO[base].tasks.get(str(name), {})
    network = settings["model"].get("name") if isinstance(settings.get("model"), dict) else None
    if network not in (None, here.get("model", {}).get("name")):
        here = {}  # what suits one network need not suit another
    if "model" in here or network is not None:
        table["model"] = {}  # options belong to the network they were written for
    choices = _choices(base, settings, table, task, dataset)
    here = merge(here, as_settings(choices))
    if choices:
        table["model"] = {}
    table = merge(table, here)
    table = merge(table, {key: value for key, value in settings.items() if key != "method"})
    table = with_all_sites(table, {**as_settings(choices), **settings}, task)
    known = ("data", "model", "evaluation", "privacy", "objective", "seed", *METHOD_KEYS)
    for key in table:
        if key not in known:
            raise FedveilError(f"{_unknown(key, table[key])}: unknown key{_meant(key, table[key], known)}")
    privacy = structure(table["privacy"], PrivacySpec, "privacy")
    _check_whole_mechanisms(base, settings, table)
    if privacy.calibrate:
        _check_unsolved(settings)
        table |= {place: _with_start(table[place]) for place in PLACES}
    return Spec(
        base=base,
        data=structure(table["data"], DataSpec, "data"),
        model=structure(table["model"], ModelSpec, "model"),
        evaluation=structure(table["evaluation"], EvaluationSpec, "evaluation"),
        privacy=privacy,
        objective=structure(table["objective"], cast("type[Objective | None]", Objective | None), "objective"),
        method=structure({key: table[key] for key in METHOD_KEYS}, Method, ""),
        seed=_seed(table["seed"]),
        choices=tuple(choice for choice in choices if not is_stated(settings, choice.key)),
    )


def _unknown(key: str, value: Any) -> str:
    """The dotted key that was given: the path to the first value in it."""
    while isinstance(value, Mapping) and value:
        inner, value = next(iter(value.items()))
        key = f"{key}.{inner}"
    return key


def _meant(key: str, value: Any, known: Sequence[str]) -> str:
    meant = suggested_key(_unknown(key, value))
    if meant is not None:
        return f"; did you mean {meant}?"
    return f"; there are method, {', '.join(known)}, and nested ones with dots, as stop.rounds"


def _choices(
    base: str, settings: Mapping[str, Any], below: Mapping[str, Any], task: Mapping[str, Any], dataset: Dataset | None
) -> tuple[Choice, ...]:
    """What a front door chooses; nothing for other methods, or where everything is stated, as in a run's own spec."""
    if base not in DOORS or all(key in settings for key in ("model", *METHOD_KEYS)):
        return ()
    table = merge(below, {key: settings[key] for key in ("data", "privacy") if key in settings})
    table = with_all_sites(table, settings, task)
    privacy = structure(table["privacy"], PrivacySpec, "privacy")
    data = structure(table["data"], DataSpec, "data")
    budget = privacy.budget if privacy.calibrate else None
    outline = None if dataset is None else dataset.outline
    return choices_for(base, facts_of(data, budget, outline), settings)


def _laid_over(task: Mapping[str, Any], method: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """What a method changes in plain FedAvg; all of a part of which the task has another kind."""
    own = difference(method, plain)
    for key in own:
        kind = task.get(key, {}).get("kind")
        if kind not in (None, plain[key].get("kind") if isinstance(plain[key], Mapping) else None):
            own[key] = method[key]
    return own


def _check_whole_mechanisms(base: str, settings: Mapping[str, Any], table: Mapping[str, Any]) -> None:
    """Refuse a single key of noise that the method does not have: half a mechanism can't be guessed."""
    for place in PLACES:
        given, whole = settings.get(place), table[place]
        lacking = [key for key in ("clip", "sigma") if isinstance(whole, Mapping) and key not in whole]
        if ZOO[base].method.mechanisms.get(place) is not None or not lacking or not isinstance(given, Mapping):
            continue
        if table["privacy"].get("calibrate") and lacking == ["sigma"]:  # it is solved for
            continue
        having = next(name for name, entry in ZOO.items() if name not in DOORS and place in entry.method.mechanisms)
        named = ", ".join(f"{place}.{key}" for key in given) or place
        raise FedveilError(
            f"{named}: {base} adds no noise there, so {' and '.join(f'{place}.{key}' for key in lacking)} must be given"
            f" too; or begin with a method that has it: {having}"
        )


def _check_unsolved(settings: Mapping[str, Any]) -> None:
    """Refuse a σ that is stated although it is solved for: one of the two would be ignored."""
    for place in PLACES:
        stated = settings.get(place)
        if isinstance(stated, Mapping) and "sigma" in stated:
            raise FedveilError(
                f"{place}.sigma: is set to {stated['sigma']}, and privacy.calibrate solves it for privacy.epsilon;"
                " leave one of them out (privacy.calibrate = false keeps your sigma)"
            )


def _with_start(mechanism: Any) -> Any:
    """A mechanism whose noise will be solved for, with a σ for the search to begin with."""
    return {"sigma": 1.0, **mechanism} if isinstance(mechanism, Mapping) else mechanism


def _seed(value: object) -> int | None:
    if value is None or value == ABSENT:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise FedveilError(f"seed: expected a whole number, not {value!r}")
    return value

"""Attack a method, a spec or a finished run: steal what a view shows in the real engine, and reconstruct from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from fedveil.accounting.round_rules import clean_rows
from fedveil.attacks.inversion import reconstruction_pictures as pictures
from fedveil.attacks.inversion.differentiable import differentiable
from fedveil.attacks.inversion.invert import PRESETS, Inversion, Reconstruction, invert
from fedveil.attacks.inversion.metrics import (
    SUCCESS,
    AttackSummary,
    Score,
    Successes,
    blind_rmse,
    scores,
    summarise_scores,
)
from fedveil.attacks.inversion.minimise import UPDATES
from fedveil.attacks.inversion.victims import AttackScene, Stolen, Truth, choose_victims, steal
from fedveil.config.attack_settings import INVERSIONS
from fedveil.config.merge import ABSENT, merge, set_dotted
from fedveil.config.spec import Source, Spec, read_settings, resolve
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.progress import Progress, nobody_watches
from fedveil.core.suggestions import did_you_mean
from fedveil.core.types import CLIENTS_WORK, View
from fedveil.data.dataset import Dataset
from fedveil.data.known_sets import known_set
from fedveil.data.sources import sha256_of
from fedveil.engine.batched import Engine
from fedveil.engine.client import Broadcast
from fedveil.engine.server_state import ServerState
from fedveil.runs.argument_checks import check_arguments
from fedveil.runs.book import check_records
from fedveil.runs.evidence import keep_attack
from fedveil.runs.files import run_of
from fedveil.runs.outlook import resolve_for
from fedveil.runs.prepare import Prepared, prepare
from fedveil.runtimes.local import count_workers, one_thread
from fedveil.studies.attack_progress import AttackProgress
from fedveil.studies.unfinished_attacks import unfinished_attack

STRONGEST = "strongest"
TABULAR_NETWORK = {"name": "mlp", "options": {"hidden": [64, 32], "activation": "sigmoid"}}
PICTURE_NETWORK = {"name": "leakage-cnn"}

Note = Callable[[str], None]


@dataclass(frozen=True)
class AttackResult:
    """What the strongest attacker of those tried got out of a view."""

    method: str
    data: str
    model: str
    view: View
    attack: str
    settings: dict[str, Any]
    scored: tuple[tuple[Score, ...], ...]  # seed by seed
    tried: dict[str, AttackSummary]
    threshold: float
    blind: float
    facts: dict[str, Any]
    seconds: float
    picture: Path | None = None
    tiles: tuple[pictures.Tile, ...] = field(default=(), repr=False, compare=False)  # of the first victims

    @property
    def succeeded(self) -> int:
        """Attacks that ended below the threshold, over all seeds."""
        return sum(score.success for scored in self.scored for score in scored)

    @property
    def summary(self) -> AttackSummary:
        return self.tried[self.attack]

    def to_dict(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "data": self.data,
            "model": self.model,
            "view": str(self.view),
            "attack": self.attack,
            "victims": len(self.scored[0]),
            "seeds": len(self.scored),
            **self.summary.to_dict(),
            "threshold": self.threshold,
            "blind_rmse": self.blind,
            "facts": self.facts,
            "composition": self.settings,
            "tried": {name: summary.to_dict() for name, summary in self.tried.items()},
            "seconds": round(self.seconds, 2),
            **({"picture": str(self.picture)} if self.picture else {}),
            "per_victim": [
                {"seed": seed, **score.to_dict()} for seed, scored in enumerate(self.scored) for score in scored
            ],
        }


@one_thread()
def attack(
    source: Source = "fed-cdp",
    overrides: Mapping[str, Any] | None = None,
    *,
    view: str | View = View.ON_DEVICE,
    attack: str = STRONGEST,
    changes: Mapping[str, Any] | None = None,
    victims: int = 40,
    iterations: int = 300,
    seed: int = 0,
    seeds: int = 1,
    looks: int = 1,
    threshold: float = SUCCESS,
    out: str | Path | None = None,
    workers: int | None = None,
    dataset: Dataset | None = None,
    note: Note = lambda line: None,
    progress: Progress = nobody_watches,
    keep: bool = True,
    unfinished: Path | None = None,
    go_on: bool = False,
) -> AttackResult:
    """Reconstruct the records of `victims` clients from what `view` shows of their first local iteration.

    A method or spec is attacked before its first round, on the papers' attack network unless it names a model, with one
    local step unless it says how many. A run is attacked at its last published model, with its own network and steps.
    `changes` are dotted keys of the attack itself (`seed`, `distance`, `optimiser.history` …). The result of attacking
    a run is kept in its directory, for its report, with the first victims' records as pictures, unless `keep` is false.
    A directory for what is `unfinished` lets the same call go on after an interruption; it is the caller's to remove.
    With `go_on` there is one in the user's cache, as long as the attack is not finished.
    """
    begun = time.perf_counter()
    numbers = {"victims": victims, "iterations": iterations, "seed": seed, "seeds": seeds, "looks": looks}
    check_arguments(overrides=overrides, dataset=dataset, paths={"out": out}, numbers=numbers)
    for name, value in (("seeds", seeds), ("looks", looks), ("iterations", iterations)):
        if value < 1:
            raise ArgumentError(name, f"must be at least 1, not {value}")
    if not threshold > 0:
        raise ArgumentError("threshold", f"must be above 0, not {threshold}")
    view, cores = _view(view), count_workers(workers)
    prepared, state = opened(source, overrides, seed=seed, dataset=dataset)
    scene = scene_of(prepared)
    generator = _generator(seed)
    clients = choose_victims(scene, victims, generator)
    stolen, truth = steal(scene, Broadcast(state.round, state.parameters, state.bound), clients, view, looks)
    candidates = _candidates(attack, changes or {}, stolen)
    for line in _bare(stolen):
        note(line)
    tries: dict[str, list[_Try]] = {}
    with _place(unfinished, go_on, prepared, state, stolen, candidates, (iterations, seed, seeds, threshold)) as place:
        for name, composition in candidates.items():
            note(f"{name}: attacking {victims} victims with {stolen.facts.records} records each")
            for repeat in range(seeds):
                draws = _generator(seed * 1_000_003 + repeat)
                successes, film = Successes(truth, threshold), pictures.Film(pictures.rows_of(truth))
                title = name if seeds == 1 else f"{name}-{repeat + 1}"
                most = len(clients) * iterations * UPDATES
                watching = AttackProgress(title, note, successes, film, place, progress, most, victims)
                tries.setdefault(name, []).append(
                    _attempt(composition, stolen, truth, iterations, draws, watching, cores)
                )
            summary = summarise_scores([score for one in tries[name] for score in one.scored])
            note(f"{name}: success {summary.success_rate:.0%}, RMSE {summary.means['rmse']:.4f}")
    summaries = {name: summarise_scores([s for one in made for s in one.scored]) for name, made in tries.items()}
    best = max(summaries, key=lambda name: summaries[name].strength)
    result = AttackResult(
        method=prepared.spec.base,
        data=prepared.dataset.name,
        model=prepared.spec.model.name,
        view=view,
        attack=best,
        settings=INVERSIONS.unstructure(candidates[best]),
        scored=tuple(tuple(one.scored) for one in tries[best]),
        tried=summaries,
        threshold=threshold,
        blind=blind_rmse(truth),
        facts=_facts(stolen, state),
        seconds=time.perf_counter() - begun,
        picture=Path(out) if out is not None else None,
        tiles=tuple(pictures.tiles(truth, tries[best][0].found, tries[best][0].scored)),
    )
    if result.picture is not None:
        for name, made in tries.items():  # the strongest under the name that was asked for, the others beside it
            path = result.picture if name == best else result.picture.with_stem(f"{result.picture.stem}-{name}")
            title = _title(result, name)
            pictures.draw_reconstructions(path, title, truth, made[0].found, made[0].scored, made[0].film)
    run = run_of(source)
    if run is not None and keep:
        note(f"kept in {keep_attack(run, result.to_dict(), list(result.tiles))}")
    return result


def _place(
    given: Path | None,
    go_on: bool,
    prepared: Prepared,
    state: ServerState,
    stolen: Stolen,
    candidates: Mapping[str, Inversion],
    numbers: Sequence[float],
) -> AbstractContextManager[Path | None]:
    """Where finished groups are kept: where the caller says, or a place that belongs to this very attack."""
    if given is not None or not go_on:
        return nullcontext(given)
    seen = [tensor.numpy().tobytes() for tensor in (state.parameters, stolen.tensors)]
    return unfinished_attack(
        {
            "spec": prepared.spec.to_toml(),
            "records": prepared.dataset.fingerprint,
            "seen": [sha256_of(content) for content in seen],
            "view": stolen.view,
            "attacks": {name: INVERSIONS.unstructure(one) for name, one in candidates.items()},
            "numbers": list(numbers),
        }
    )


@dataclass(frozen=True)
class _Try:
    found: Reconstruction
    scored: list[Score]
    film: pictures.Film


def _attempt(
    composition: Inversion,
    stolen: Stolen,
    truth: Truth,
    iterations: int,
    generator: torch.Generator,
    progress: AttackProgress,
    workers: int,
) -> _Try:
    reconstruction = invert(
        composition,
        stolen,
        iterations,
        generator,
        watch=progress,
        told=truth.labels,
        workers=workers,
        keeper=progress,
    )
    return _Try(reconstruction, scores(reconstruction, truth, progress.successes), progress.film)


def _generator(seed: int) -> torch.Generator:
    """A generator from a seed of any size; torch takes 63 bits of it."""
    return torch.Generator().manual_seed(seed % 2**63)


def _view(view: str | View) -> View:
    try:
        return View(view)
    except ValueError:
        raise ArgumentError("view", f"there is no view {view!r}; there are {', '.join(CLIENTS_WORK)}") from None


def opened(
    source: Source,
    overrides: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    dataset: Dataset | None = None,
) -> tuple[Prepared, ServerState]:
    """Everything ready, and the model at which it is attacked. The attack's own randomness never touches a run's."""
    files = run_of(source, overrides)
    if files is not None:
        files.check()
        if dataset is not None:
            check_records(files, dataset)
        prepared = prepare(_seeded(resolve(files.spec), seed), dataset, initial=files.initial())
        state = files.load_checkpoint(prepared.layout)
        if state is None:
            raise FedveilError(f"{source}: the run has published no model yet")
        return prepared, replace(state, round=min(state.round, prepared.spec.method.rounds - 1))
    settings = read_settings(source, overrides)
    spec = _seeded(resolve_for(_with_defaults(settings, dataset), None, dataset), seed)
    prepared = prepare(spec, dataset)
    return prepared, prepared.initial_state()


def _seeded(spec: Spec, seed: int) -> Spec:
    return replace(spec, seed=seed if spec.seed is None else spec.seed)


def _with_defaults(settings: Mapping[str, Any], dataset: Dataset | None) -> dict[str, Any]:
    """The papers' attack: their network, and the first local iteration, where nothing else was said."""
    spec = resolve(settings)
    if dataset is not None:
        tabular = len(dataset.input_shape) == 1
    else:
        tabular = bool(spec.data.schema) if spec.data.in_files else known_set(spec.data.name).tabular
    changed = dict(settings)
    if "model" not in settings:
        changed["model"] = TABULAR_NETWORK if tabular else PICTURE_NETWORK
    local = settings.get("local", {})
    if isinstance(local, Mapping) and not {"steps", "epochs"} & set(local):
        changed["local"] = merge(local, {"steps": 1, "epochs": ABSENT})
    return changed


def scene_of(prepared: Prepared) -> AttackScene:
    """The engine, the records and the differentiable model, in one process."""
    if prepared.dataset.tokens:
        raise FedveilError("data: records are tokens, and these attacks reconstruct numbers; they can't be attacked")
    gradients = differentiable(prepared.model, prepared.dataset.input_shape, prepared.job.objective)
    return AttackScene(Engine(prepared.job), gradients, prepared.dataset.task.outputs)


def _bare(stolen: Stolen) -> list[str]:
    """That rows are seen without the noise that the method adds after them, and what to set against it."""
    if stolen.view is not View.ON_DEVICE:
        return []
    noisy = [one for one in stolen.facts.declared if one.place == "example" and one.sum_std > 0]
    return [f"on_device: {reason}" for reason in map(clean_rows, noisy) if reason is not None]


def _candidates(name: str, changes: Mapping[str, Any], stolen: Stolen) -> dict[str, Inversion]:
    """The attack that was named or, for the strongest, those worth trying.

    On noisy gradients the papers' own and one that knows σ; on batches of pictures also one that expects smooth ones.
    """
    if name == STRONGEST:
        several = stolen.facts.pictures and stolen.facts.records > 1
        names: Sequence[str] = ("balanced", "smooth") if several else ("balanced",)
        names = names if stolen.noise_std == 0 else ("cpl", "informed")
    elif name in PRESETS:
        names = (name,)
    else:
        near = did_you_mean(name, (STRONGEST, *PRESETS)) or f"; there are {STRONGEST}, {', '.join(PRESETS)}"
        raise ArgumentError("attack", f"there is no attack {name!r}{near}")
    return {each: _changed(PRESETS[each], changes) for each in names}


def _changed(preset: Inversion, changes: Mapping[str, Any]) -> Inversion:
    table = INVERSIONS.unstructure(preset)
    for key, value in changes.items():
        table = set_dotted(table, key, value)
    return INVERSIONS.structure(table, Inversion, "attack")


def _facts(stolen: Stolen, state: ServerState) -> dict[str, Any]:
    facts = stolen.facts
    return {
        "round": state.round,
        "records_per_victim": facts.records,
        "local_steps": facts.steps,
        "batch": facts.batch,
        "rate": facts.rate,
        "noise_std": stolen.noise_std,
        "clips": [declared.bound for declared in facts.declared],
        "looks": facts.looks,
    }


def _title(result: AttackResult, name: str) -> str:
    summary = result.tried[name]
    return (
        f"{result.method} on {result.data}, {result.view} view, attack {name}\n"
        f"success {summary.success_rate:.0%}, mean RMSE {summary.means['rmse']:.4f}"
    )

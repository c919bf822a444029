"""The demonstration: a gradient gives its record away, noise hides it, and a private model is nearly as good.

All of it is computed when it is called. What fits it into a minute are public choices: few victims, few rounds.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from fedveil.config.public_facts import load_for
from fedveil.config.spec import resolve
from fedveil.core.atomic import disk_errors
from fedveil.core.cores import usable_cores
from fedveil.core.errors import ArgumentError
from fedveil.core.types import View
from fedveil.data.fetching import available
from fedveil.engine.job import Job
from fedveil.models.registry import fixed_part
from fedveil.report.plots.reconstruction_rows import draw_rows
from fedveil.report.terminal.run_progress import SilentReporter
from fedveil.runs.files import RunFiles
from fedveil.runs.outlook import resolve_for
from fedveil.runs.prepare import Prepared, prepare
from fedveil.runs.result import Result
from fedveil.runs.round_updates import RoundUpdate
from fedveil.runs.run import begin_training
from fedveil.runtimes.local import LocalRuntime, precomputed
from fedveil.studies.attack import AttackResult, attack
from fedveil.studies.report import report

WITH_NOISE, WITHOUT = "private", "plain"
_EPSILON = 1.0
_VICTIMS, _ITERATIONS = 6, 40

_DIGITS = {"data.name": "mnist", "data.clients": 20, "data.records": 2500}
_BUNDLED = {"data.name": "cancer", "data.clients": 4, "data.records": 100, "data.partition": "random"}
"""Records that come with scikit-learn, for machines without MNIST and without a network."""

_ROUNDS = 30


class Watching(Protocol):
    """Whoever follows a demonstration."""

    def step(self, number: int, title: str) -> None: ...

    def progress(self, title: str, share: float) -> None: ...

    def round(self, name: str, update: RoundUpdate) -> None: ...


@dataclass(frozen=True)
class Showcase:
    """What was shown. `bare` and `noised` are the attacks on a gradient without and with Fed-CDP's noise."""

    out: Path
    data: str
    bare: AttackResult
    noised: AttackResult
    picture: Path
    plain: Result
    private: Result
    clients: int
    records: int
    report: Path
    seconds: float
    asked: bool  # whether somebody chose the data, or they are what was at hand

    def to_dict(self) -> dict[str, Any]:
        return {
            "data": self.data,
            "attack": {
                name: {"victims": len(one.scored[0]), "reconstructed": one.succeeded, "rmse": one.summary.means["rmse"]}
                for name, one in (("without_protection", self.bare), ("fed_cdp", self.noised))
            },
            "picture": str(self.picture),
            "plain": self.plain.to_dict(),
            "private": self.private.to_dict(),
            "report": str(self.report),
            "seconds": self.seconds,
        }


def showcase(out: str | Path, watching: Watching, *, rounds: int = _ROUNDS, data: str | None = None) -> Showcase:
    """Attack, train with and without privacy, write a report; all of it into the directory `out`, begun anew.

    `data` is mnist, or cancer, which is bundled; if not given, mnist where it is at hand.
    """
    begun, directory = time.perf_counter(), Path(out)
    settings = _settings(data)
    _clear(directory)
    watching.step(1, "an attacker reads records off a gradient, without and with Fed-CDP's noise")
    bare, noised = (_attacked(method, settings, watching) for method in ("fedavg", "fed-cdp"))
    picture = directory / "reconstruction.png"
    true, others = ([tile.truth for tile in one.tiles] for one in (bare, noised))
    rows = [("the record", true), ("from its gradient", [tile.found for tile in bare.tiles])]
    rows += [("another record", others)] if others != true else []
    draw_rows(picture, [*rows, ("with Fed-CDP's noise", [tile.found for tile in noised.tiles])])
    watching.step(2, "the same training, without and with privacy, at the same time")
    prepared = _prepared(settings, rounds)
    results = _trained(prepared, directory, watching)
    watching.step(3, "the report of both")
    page = report([directory / WITH_NOISE, directory / WITHOUT], directory / "report.html").path
    population = prepared[WITH_NOISE].sites.population
    return Showcase(
        out=directory,
        data=str(settings["data.name"]),
        bare=bare,
        noised=noised,
        picture=picture,
        plain=results[WITHOUT],
        private=results[WITH_NOISE],
        clients=population.clients,
        records=sum(population.records),
        report=page,
        seconds=round(time.perf_counter() - begun, 1),
        asked=data is not None,
    )


def _settings(data: str | None) -> Mapping[str, Any]:
    if data not in (None, "mnist", "cancer"):
        raise ArgumentError("data", f"must be mnist or cancer, not {data!r}")
    return _DIGITS if data == "mnist" or (data is None and available("mnist")) else _BUNDLED


def _clear(directory: Path) -> None:
    """Begin anew where an earlier demonstration was; leave everything else alone."""
    with disk_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        for name in (WITH_NOISE, WITHOUT):
            if (directory / name / "run.json").is_file():
                shutil.rmtree(directory / name)


def _attacked(method: str, settings: Mapping[str, Any], watching: Watching) -> AttackResult:
    """On single gradients while a device trains, where noise must be on every one of them to count."""
    own: dict[str, Any] = {"cohort": "everyone"} | ({"example.each_row": True} if method == "fed-cdp" else {})
    return attack(
        method,
        {**settings, **own},
        view=View.ON_DEVICE,
        victims=min(_VICTIMS, settings["data.clients"]),
        iterations=_ITERATIONS,
        progress=lambda title, share: watching.progress(f"{method}, attack {title}", share),
    )


def _prepared(settings: Mapping[str, Any], rounds: int) -> dict[str, Prepared]:
    """Private training as its front door chooses it, and the very same without clipping and noise."""
    asked = {**settings, "privacy.epsilon": _EPSILON, "stop.rounds": rounds}
    dataset = load_for(resolve("fedavg", settings).data)
    private = resolve_for("private-records", asked, dataset)
    table = private.to_dict()
    alike = {key: table[key] for key in ("data", "model", "cohort", "batch", "local", "aggregate", "stop")}
    plain = resolve_for({"method": "fedavg", **alike}, None, dataset)
    return {WITHOUT: prepare(plain, dataset), WITH_NOISE: prepare(private, dataset)}


def _trained(prepared: Mapping[str, Prepared], directory: Path, watching: Watching) -> dict[str, Result]:
    """Both at the same time, each in a thread of its own, so that this one can be interrupted."""
    stopping = threading.Event()
    results: dict[str, Result] = {}
    errors: list[BaseException] = []
    jobs = _featured(prepared)
    workers = max(usable_cores() // len(prepared), 1)

    def train(name: str) -> None:
        def follow(update: RoundUpdate) -> None:
            watching.round(name, update)
            if stopping.is_set():
                raise _Stopped

        files, job = RunFiles(directory / name), jobs[name]
        try:
            results[name] = begin_training(
                prepared[name], files, lambda _: LocalRuntime(job, workers), SilentReporter(), follow
            )
        except _Stopped:
            pass
        except BaseException as error:  # it is raised again below, where somebody hears of it
            errors.append(error)

    threads = [threading.Thread(target=train, args=(name,), name=name) for name in prepared]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(0.1)
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return results


class _Stopped(Exception):
    """Whoever watched has seen enough; what was published is kept."""


def _featured(prepared: Mapping[str, Prepared]) -> dict[str, Job]:
    """The jobs with the part of the network that is never trained computed once for both: records are the same."""
    first = precomputed(prepared[WITHOUT].job)
    jobs = {WITHOUT: first}
    for name, one in prepared.items():
        parts = fixed_part(one.model)
        if name == WITHOUT or parts is None:
            jobs.setdefault(name, one.job)
            continue
        sites = replace(one.sites, examples=first.sites.examples)
        jobs[name] = replace(one.job, model=parts[1], sites=sites, validation=first.validation)
    return jobs

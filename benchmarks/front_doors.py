"""What the two front doors reach as they come: accuracy at a verified ε, on every task of the table, over seeds.

Nothing is set but the data, who holds them, ε and δ. Results go to benchmarks/results/front-doors.json, one line for
each run; `--page` writes docs/results/front-doors.md from it. Runs that are there already are not made again, unless
they are marked `older`: made before the doors' last change for their kind of records.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

import fedveil
from fedveil.config.public_facts import load_for
from fedveil.config.spec import resolve
from fedveil.core.rounding import rounded_up
from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset, to_float

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "front-doors.json"
PAGE = HERE.parent / "docs" / "results" / "front-doors.md"
README = HERE.parent / "README.md"
TABLE = re.compile(r"(?<=^\| --- \| --- \| --- \| --- \| --- \|\n)(\|.*\n)*", re.MULTILINE)
"""The rows of the README's table."""


@dataclass(frozen=True)
class Task:
    """A row of the table: what is set, how it is measured, and with what it is compared."""

    name: str
    door: str
    settings: Mapping[str, Any]
    seeds: int = 3
    metric: str = "accuracy"
    beside: str = ""
    bare: bool = False  # whether the same training is made without noise as well
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The command of its first seed."""
        given = " ".join(f"--set {key}={value}" for key, value in self.settings.items())
        return f"fedveil run {self.door} {given} --seed 1"


def _mnist(clients: int, epsilon: float, **more: Any) -> dict[str, Any]:
    return {"data.name": "mnist", "data.clients": clients, "privacy.epsilon": epsilon, **more}


ADULT = {"data.name": "adult", "data.partition": "random"}
TASKS = (
    Task(
        "MNIST, K = 1,000",
        "private-records",
        _mnist(1000, 0.8227),
        beside="0.980 by fed-cdp-calibrated; Fed-CDP claims 0.956",
    ),
    Task(
        "MNIST, K = 100, no copies",
        "private-records",
        _mnist(100, 0.8227),
        beside="0.972 by fed-cdp-calibrated; Fed-CDP claims 0.903",
    ),
    Task(
        "Adult, 100 sites, no copies",
        "private-records",
        {**ADULT, "data.clients": 100, "data.records": 366, "privacy.epsilon": 0.8227},
        beside="0.761 is the majority's share",
    ),
    Task(
        "Adult, 5 banks of 7,000",
        "private-records",
        {**ADULT, "data.clients": 5, "data.records": 7000, "privacy.epsilon": 1.0},
        beside="0.761 is the majority's share",
        bare=True,
    ),
    Task(
        "heart, mean over four hospitals",
        "private-records",
        {"data.name": "heart", "privacy.epsilon": 1.0, "privacy.delta": 1e-4},
        seeds=20,
        metric="mean over sites",
        beside="FLamby publishes 0.685 with privacy, 0.713 without",
        bare=True,
    ),
    Task(
        "heart, the same",
        "private-records",
        {"data.name": "heart", "privacy.epsilon": 0.1, "privacy.delta": 1e-4},
        seeds=20,
        metric="mean over sites",
        beside="FLamby publishes 0.606",
    ),
    Task(
        "brca, death observed: AUC",
        "private-records",
        {"data.name": "brca", "privacy.epsilon": 2.0},
        seeds=20,
        metric="AUC",
        bare=True,
    ),
    Task(
        "brca, death observed: balanced accuracy",
        "private-records",
        {"data.name": "brca", "privacy.epsilon": 2.0},
        seeds=20,
        metric="balanced accuracy",
        bare=True,
    ),
    Task(
        "cancer, 5 sites, no copies",
        "private-records",
        {"data.name": "cancer", "data.partition": "random", "data.clients": 5, "data.records": 85}
        | {"privacy.epsilon": 1.0},
        seeds=20,
    ),
    Task(
        "CIFAR-10, 100 sites, no copies",
        "private-records",
        {"data.name": "cifar10", "data.clients": 100, "data.records": 400, "privacy.epsilon": 3.0},
        beside="0.33 by fed-cdp-calibrated in 30 rounds",
    ),
    Task("MNIST, K = 1,000", "private-clients", _mnist(1000, 8.0), beside="Geyer claims 0.92"),
    Task("MNIST, K = 1,000", "private-clients", _mnist(1000, 1.0), beside="Fed-SDP claims 0.928 at 0.85"),
    Task(
        "MNIST, K = 100, no copies",
        "private-clients",
        _mnist(100, 8.0, **{"privacy.delta": 1e-3}),
        beside="Geyer claims 0.78",
        bare=True,
    ),
    Task("MNIST, K = 10,000", "private-clients", _mnist(10_000, 1.0), beside="Geyer claims 0.96 at ε = 8"),
)


def without_noise(task: Task) -> dict[str, Any]:
    """The same training without noise: records clipped as before, clients not at all."""
    free: dict[str, Any] = {"privacy.calibrate": False, "privacy.epsilon": "none"}
    chosen = resolve(task.door, task.settings)
    if task.door == "private-clients":
        return {**task.settings, "local.rate": chosen.method.local.rate.at(0, 1), **free, "server": "none"}
    free["example.sigma"] = 0
    kept: dict[str, Any] = {"model.name": chosen.model.name}  # with less noise, other features would be chosen
    kept |= {f"model.options.{key}": value for key, value in chosen.model.options.items()}
    kept |= {"local.rate": chosen.method.local.rate.at(0, 1), "example.clip.bound": chosen.method.example.clip.start}
    return {**task.settings, **kept, **free}


def measured(run: Path, dataset: Dataset) -> dict[str, float]:
    """All figures of a finished run on the validation records."""
    model = fedveil.load_model(run)
    with torch.no_grad():
        parts = [model(to_float(part)) for part in torch.split(dataset.validation.inputs, 500)]
    outputs, labels = torch.cat(parts), dataset.validation.labels
    right = (outputs.argmax(dim=1) == labels).double()
    figures = {"accuracy": float(right.mean())}
    if dataset.sites:
        sites = [right[site.validation.start : site.validation.stop] for site in dataset.sites]
        figures["mean over sites"] = statistics.fmean(float(site.mean()) for site in sites)
    if outputs.shape[1] == 2:
        figures["AUC"] = float(roc_auc_score(labels, outputs.softmax(dim=1)[:, 1]))
        figures["balanced accuracy"] = float(balanced_accuracy_score(labels, outputs.argmax(dim=1)))
    return figures


def train(task: Task, settings: Mapping[str, Any], seed: int, dataset: Dataset, workers: int) -> dict[str, Any]:
    """One run: its figures, and the ε that was spent in the cell that was asked for."""
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "run"
        ended = fedveil.run(task.door, {**settings, "evaluation.every": 1000}, seed=seed, out=run, workers=workers)
        unit, view = (Unit.RECORD, View.SERVER) if task.door == "private-records" else (Unit.CLIENT, View.RELEASED)
        spent = ended.of(unit, view)
        return {
            "epsilon": spent.epsilon if spent.finite else None,
            "delta": spent.delta,
            "seconds": ended.seconds,
            "figures": measured(run, dataset),
        }


def key_of(task: Task, settings: Mapping[str, Any], seed: int) -> str:
    return json.dumps([task.door, dict(settings), seed])


def work(chosen: Sequence[Task], workers: int, seeds: int) -> None:
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    loaded: dict[str, Dataset] = {}
    for task in chosen:
        variants = [task.settings] + ([without_noise(task)] if task.bare else [])
        for settings in variants:
            for seed in range(1, min(task.seeds, seeds) + 1):
                key = key_of(task, settings, seed)
                if key in done and not done[key].get("older"):
                    continue
                spec = resolve(task.door, task.settings)
                if spec.data.name not in loaded:
                    loaded = {spec.data.name: load_for(spec.data)}
                done[key] = train(task, settings, seed, loaded[spec.data.name], workers)
                RESULTS.write_text(json.dumps(done, indent=1) + "\n")
                print(task.name, key, done[key], flush=True)


def made(done: Mapping[str, Any], task: Task, settings: Mapping[str, Any]) -> list[Any]:
    """The runs of a task that were made: those of the present rules, or older ones if there are no others."""
    keys = (key_of(task, settings, seed) for seed in range(1, task.seeds + 1))
    runs = [done[key] for key in keys if key in done]
    return [run for run in runs if not run.get("older")] or runs


def cell(values: Sequence[float], seeds: int) -> str:
    """Mean ± standard deviation of a few seeds, or ± standard error of many."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    if seeds > 3:
        return f"{statistics.fmean(values):.4f} ± {spread / math.sqrt(len(values)):.4f} (standard error)"
    return f"{statistics.fmean(values):.4f}" + (f" ± {spread:.4f}" if len(values) > 1 else "")


def page() -> str:
    done = json.loads(RESULTS.read_text())
    lines = [
        "# What the front doors reach",
        "",
        "For whoever asks what accuracy to expect at an ε.",
        "",
        "Made by `python benchmarks/front_doors.py --page` from `benchmarks/results/front-doors.json`; not typed in.",
        "Nothing is set but the data, who holds them, ε and δ: [private-records](../methods/private-records.md) and",
        "[private-clients](../methods/private-clients.md) choose the rest from public facts. ε is verified: what was",
        "spent, from the ledger. Measured on the validation records. Rules were chosen on held-out training records;",
        "the methods' pages say where a look at validation records had prompted to choose once more. Lines of older",
        "rules were measured before the features' last change and not made again since.",
        "",
        "| task | unit × view | ε, δ | reached | without noise | beside it | seeds | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    commands = []
    for task in TASKS:
        runs = made(done, task, task.settings)
        unit = "record × server" if task.door == "private-records" else "client × released"
        if not runs:
            asked = f"{task.settings['privacy.epsilon']:g}, {task.settings.get('privacy.delta', 1e-5):g}"
            lines.append(f"| {task.name} | {unit} | {asked} (asked for) | not made yet | | {task.beside} | 0 | |")
            commands.append(task.words)
            continue
        older = " (older rules)" if runs[0].get("older") else ""
        figures = [run["figures"][task.metric] for run in runs]
        free = ""
        if task.bare:
            others = made(done, task, without_noise(task))
            free = cell([run["figures"][task.metric] for run in others], task.seeds) if others else ""
        epsilon = rounded_up(max(run["epsilon"] for run in runs))
        seconds = statistics.fmean(run["seconds"] for run in runs)
        lines.append(
            f"| {task.name} | {unit} | {epsilon}, {runs[0]['delta']:g} | {cell(figures, task.seeds)}{older} | {free} |"
            f" {task.beside} | {len(runs)} | {seconds:.0f} |"
        )
        commands.append(f"{task.words}")
    lines += ["", "The command of the first seed of each line:", "", "```text", *dict.fromkeys(commands), "```", ""]
    return "\n".join(lines)


def readme_rows() -> str:
    """What one wants to hide, from whom, the command, and what it costs: one task for each, with its figures."""
    hidden = {
        "heart, mean over four hospitals": ("one patient's record", "the same"),
        "Adult, 5 banks of 7,000": ("one customer's record", "the server and everybody behind it"),
        "MNIST, K = 100, no copies": ("all that a phone holds", "other phones, readers of the model"),
    }
    done, rows = json.loads(RESULTS.read_text()), []
    for task in TASKS:
        what = hidden.get(task.name) if task.bare else None
        if what is None:
            continue
        private, bare = (made(done, task, settings) for settings in (task.settings, without_noise(task)))
        if not (private and bare):
            continue
        figures = [f"{statistics.fmean(run['figures'][task.metric] for run in runs):.3f}" for runs in (private, bare)]
        epsilon = rounded_up(max(run["epsilon"] for run in private))
        place = {"heart": "four hospitals", "adult": "five banks", "mnist": "100 phones"}[task.settings["data.name"]]
        rows.append(
            f"| {what[0]} | {what[1]} | `fedveil run {task.door}` | {figures[0]} at ε = {epsilon} ({place}) |"
            f" {figures[1]} |\n"
        )
    return "".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="Tasks whose name and door hold this text.")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=20, help="At most so many of each task.")
    parser.add_argument("--page", action="store_true", help="Write the page, train nothing.")
    asked = parser.parse_args()
    if asked.page:
        PAGE.write_text(page())
        README.write_text(TABLE.sub(lambda _: readme_rows(), README.read_text(), count=1))
        return
    work(
        [task for task in TASKS if asked.only in f"{task.name} {task.door} {task.settings}"], asked.workers, asked.seeds
    )


if __name__ == "__main__":
    main()

"""Sentences about a spec, for people who do not read TOML."""

from __future__ import annotations

from fedveil.accounting.context import Context
from fedveil.config.spec import Spec
from fedveil.mechanisms.adaptive import CohortMedian
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.parts.cohorts import Everyone, FixedSize

EACH_ROW = "on each example's gradient by itself, on the client"
NOISED = {
    ("example", "row"): "for every example of a batch, on their sum of gradients, on the client",
    ("example", "sum"): "once on each batch's sum of gradients, on the client",
    ("upload", "sum"): "on each finished update, on the client",
    ("server", "row"): "for every update of the round, on their sum, at the server",
    ("server", "sum"): "once on the sum of the round's updates, at the server",
}

DIVIDED = {
    "shards": "so that each has few labels",
    "random": "at random",
    "dirichlet": "so that each has its own mix of labels",
    "copy": "so that each has all or a random part of them",
}
"""How records came to simulated clients."""


def clients_words(spec: Spec, context: Context | None) -> str:
    """Whose data: how many clients hold how many records, and whether the same ones."""
    if context is None:
        return f"{spec.data.clients:,} clients"
    population, copies = context.population, context.copies
    low, high = min(population.records), max(population.records)
    each = f"{low:,} records each" if low == high else f"{low:,} to {high:,} records each"
    shared = "no record is held twice" if copies == 1 else f"up to {copies:,} clients hold the same record"
    if population.names:
        return f"{population.clients:,} sites with {each}; {shared}"
    return f"{population.clients:,} clients with {each}, divided {DIVIDED[spec.data.partition.kind]}; {shared}"


def clip_words(spec: Spec) -> list[str]:
    """What is clipped and noised where."""
    sentences = []
    for place, mechanism in spec.method.mechanisms.items():
        thing = "example's gradient" if place == "example" else "update"
        where = EACH_ROW if mechanism.each_row else NOISED[place, mechanism.noise]
        noise = f"noise of σ = {mechanism.sigma:.4g} times that, {where}" if mechanism.sigma else "no noise"
        sentences.append(f"Every {thing} is clipped at {_bound(mechanism, spec.method.rounds)}; {noise}.")
    return sentences or ["Nothing is clipped and no noise is added."]


def _bound(mechanism: Gaussian, rounds: int) -> str:
    by = ", layer by layer" if mechanism.clip.by == "layer" else ""
    if isinstance(mechanism.adaptive, CohortMedian):
        return "the median of the cohort's own norms, read without noise"
    if mechanism.adaptive is not None:
        return "a bound that follows noisy reports of the norms (their cost is counted)"
    first, last = (mechanism.clip.at(round, rounds) for round in (0, rounds - 1))
    level = f"L2 norm C = {first:g}" if first == last else f"L2 norm C = {first:g} in the first round to {last:g}"
    return f"{level}{by}"


def choice_lines(spec: Spec) -> list[str]:
    """What a front door chose, and why: one line each."""
    if not spec.choices:
        return []
    return [
        "chosen from public facts alone (shape, classes, clients, records, ε):",
        *(f"  {one}" for one in spec.choices),
    ]


def training_words(spec: Spec) -> list[str]:
    """Who is drawn, and what a client does."""
    method = spec.method
    cohort = method.cohort
    if isinstance(cohort, Everyone):
        drawn = "Every client takes part in every round"
    elif isinstance(cohort, FixedSize):
        drawn = f"{cohort.size:,} clients, drawn at random, take part in a round"
    else:
        drawn = f"Each client takes part in a round with probability {cohort.rate:g}, by a coin of its own"
    limit = "" if cohort.most is None else f", each in at most {cohort.most:,} rounds"
    many, word = (method.local.steps, "step") if method.local.epochs is None else (method.local.epochs, "epoch")
    work = f"{many} local {word}{'' if many == 1 else 's'}"
    size = getattr(method.batch, "size", None)
    batch = f"batches of {size} ({method.batch.kind})" if size is not None else "all records at once"
    sentences = [f"{drawn}{limit}.", f"In a round, a client makes {work} with {batch}."]
    if method.aggregate.weights == "records":
        sentences.append("An update counts as much as its client has records.")
    if method.aggregate.average:
        share = f"{method.aggregate.average:.0%}"
        sentences.append(f"The model that is handed out is the mean of those of the last {share} of the rounds.")
    privacy = spec.privacy
    if privacy.epsilon is not None:
        sentences.append(
            f"No client may pass a budget of ε = {privacy.epsilon:g} of {privacy.unit} × {privacy.view} at"
            f" δ = {privacy.delta:g}; it is kept before it is spent."
        )
    return sentences

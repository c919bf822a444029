"""The front doors' rules: every setting that `private-records` and `private-clients` choose, and why.

A rule sees `PublicFacts` and what the user has stated, nothing else: no record, and no name of a data set. So choosing
costs no privacy, and records that nobody has seen before get the same care as those of the papers.

**One argument behind most rules.** A private training is a sum of noisy steps. With features of length 1 and a linear
model, noise of standard deviation s on every parameter shows as s in every output, however many parameters there are.
So the noise of a whole training can be given in units of the model's outputs before it begins, from ε, δ and the
numbers of clients and records alone. Up to a deviation of about 1 (`OUTPUT_NOISE`) it pays to go further: outputs that
tell classes apart are larger than that. Beyond it noise decides. The rule takes the longest way that keeps to this.

Constants were chosen by training on a part of the training records of several data sets and measuring on the rest
(docs/methods/private-records.md); accuracies change little around them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedveil.accounting.tradeoff import mean_of_epsilon
from fedveil.config.public_facts import PublicFacts
from fedveil.core.errors import FedveilError
from fedveil.models.layer_counts import row_features

OUTPUT_NOISE = 1.0
"""The noise of the whole training, in units of a model's outputs."""
MOMENTUM = 0.9
"""The server's: a step is the mean of about ten noisy ones."""
AVERAGED = 0.25
"""The share of the last models that are averaged. They cost nothing more, and noise of single rounds cancels."""
MOST_TOGETHER = 100
"""Clients of a round, where noise is on the client: more of them cost time and little else is won."""
RECORD_ROUNDS = 100
"""Enough for momentum to turn around many times. The noise of the whole depends little on their number: σ of one
round grows with the root of the rounds, and so does the signal of all of them over their noise."""
LEAST_CLIP, MOST_CLIP = 0.4, 1.0
"""An example's gradient begins at a length of 0.7 (two classes) to 1 and more. Clips below cut what is learned from;
above 1 hardly anything is cut any more."""
FASTEST = 8.0
"""The largest rate at which steps with this momentum settle on features of length 1, where curvature is below 1/2."""
OTHER_CLIP, OTHER_FASTEST = 0.3, 1.0
"""For a network that the user names, of whose features nothing is known, and for squared errors, which curve more."""
NUMBER_NOISE, NUMBER_CONSTANT = 0.25, 1.0
"""For predicted numbers, which lie between −1 and 1: less noise in the outputs, because all of it is an error, and a
larger constant behind a row. A class follows from a row's direction; a number may follow from its length, too."""
FEATURES_FROM = 0.1
"""From which length of a round's way on (for a noise of 1 in the outputs, and two classes) rows have more features than
their numbers. Where noise lets a model go less far than that, it only finds what single numbers say. Every class has
noise of its own, so with more of them the way must be longer by the root of their number."""
MOST_FEATURES, MOST_NUMBERS = 4_000, 100_000_000
"""Features of a row, and of all rows together: they are kept in memory."""

CLIENT_OUTPUT_NOISE, CLIENT_ROUNDS, LOCAL_STEPS = 2.0, 40, 5
"""For whole clients. Updates are clipped to a common length, so most of the noise is outgrown later."""
LONGEST_STRETCH = 8.0
"""By how much at most local steps grow where noise allows longer updates."""
FREE_SAMPLING = 1.0
"""Up to which μ²/(p²T) clients are drawn by coins. Far below, it costs nothing: log(1 + x) is nearly x. At 1 it costs a
fifth of σ, which then is so small beside 400 clients that it does not decide."""
SMALLEST_COHORT, LARGEST_COHORT = 400, 1000
"""Expected clients of a round: with fewer they differ too much, more take time and gain nothing."""
OTHER_CLIENT_RATE = 0.1


@dataclass(frozen=True)
class Choice:
    """A dotted key, its value, and why."""

    key: str
    value: Any
    reason: str

    def __str__(self) -> str:
        return f"{self.key} = {_text(self.value)}: {self.reason}"


def choices_for(door: str, facts: PublicFacts, stated: Mapping[str, Any]) -> tuple[Choice, ...]:
    """What a front door chooses on these facts, beside what the user has `stated` (a table of settings)."""
    model = _model(facts, _stated(stated, "model.name"))
    options = (_BASIS,) if model.value == "scattering" and facts.picture else ()
    return (model, *options, *DOORS[door](facts, stated, model))


def as_settings(choices: tuple[Choice, ...]) -> dict[str, Any]:
    """The choices as a table of settings."""
    table: dict[str, Any] = {}
    for choice in choices:
        *above, last = choice.key.split(".")
        inner = table
        for part in above:
            inner = inner.setdefault(part, {})
        inner[last] = choice.value
    return table


_SMOOTHING = (
    Choice("aggregate.optimiser", {"kind": "momentum", "beta": MOMENTUM}, "steps average over about ten noisy ones"),
    Choice("aggregate.average", AVERAGED, "the mean of the last quarter of the models: noise cancels, for nothing"),
)
NAMED = "you named it"
_BASIS = Choice(
    "model.options.basis",
    "scenes",
    "for any pictures: directions that vary in drawn scenes, and those of drawn strokes for grey ones like them",
)


def _model(facts: PublicFacts, named: Any) -> Choice:
    if named is not None:
        return Choice("model.name", named, NAMED)
    if facts.tokens:
        raise FedveilError("model.name: the records are tokens, for which nothing is chosen; name your own network")
    if facts.picture:
        kind = "grey" if facts.input_shape[0] == 1 else "colours"
        return Choice(
            "model.name",
            "scattering",
            f"pictures ({kind}): fixed wavelet features, made from nobody's records, and one layer that is trained",
        )
    return Choice(
        "model.name",
        "linear",
        f"records of {facts.numbers:,} numbers: rows divided by their length, and one layer that begins at zero",
    )


def _row_features(facts: PublicFacts, model: Choice, way: float) -> tuple[Choice, ...]:
    """What a linear model is shown of a row beside its numbers, if noise and memory allow more than those.

    Nothing more where a number is predicted: noise that changes no class is an error there.
    """
    if model.value != "linear" or model.reason == NAMED:
        return ()
    if facts.outputs == 1:
        return (Choice("model.options.constant", NUMBER_CONSTANT, "a number may depend on how long a row was"),)
    if way < FEATURES_FROM * math.sqrt(facts.outputs / 2):
        return ()

    def fits(low_ends: bool) -> bool:
        features = row_features(facts.numbers, low_ends=low_ends, products=True)
        return features <= MOST_FEATURES and features * sum(facts.records) <= MOST_NUMBERS

    products = Choice("model.options.products", True, "noise is small enough to learn how two numbers act together")
    if fits(low_ends=True):
        low_ends = Choice("model.options.low_ends", True, "amounts that are small for their range differ by factors")
        return low_ends, products
    return (products,) if fits(low_ends=False) else ()


def _records(facts: PublicFacts, stated: Mapping[str, Any], model: Choice) -> tuple[Choice, ...]:
    """One record against the server: noise on each client, on the sum of its records' clipped gradients."""
    rounds = int(_stated_number(stated, "stop.rounds") or RECORD_ROUNDS)
    cohort, together, uses = _limited_cohort(facts.clients, rounds, stated)
    # σ of a step is √uses/μ for the noise multiplier; the mean over the cohort and over records divides it.
    noise = 0.0
    if facts.budget is not None:
        mean = mean_of_epsilon(facts.budget.epsilon, facts.budget.delta)
        noise = math.sqrt(uses) / mean / (math.sqrt(together) * facts.mean_records) * math.sqrt(rounds)
    own = model.reason == NAMED
    least, fastest = (OTHER_CLIP, OTHER_FASTEST) if own or facts.outputs == 1 else (LEAST_CLIP, FASTEST)
    allowed = NUMBER_NOISE if facts.outputs == 1 else OUTPUT_NOISE
    way = allowed * (1 - MOMENTUM) / noise if noise else math.inf  # rate × clip
    rate = min(fastest, _rounded(way / least))
    clip = least if own else min(max(_rounded(way / rate), least), MOST_CLIP)
    slow = f"with clip {clip:g} it keeps the noise of all rounds near {allowed:g} in the outputs"
    return (
        *_row_features(facts, model, way),
        *cohort,
        Choice("batch.kind", "all", "all records in every step: the noise is added once, whatever their number"),
        Choice("local.steps", 1, "one step a round: every step has noise of its own"),
        Choice("local.rate", rate, slow if rate < fastest else "the fastest that settles; noise would allow more"),
        Choice(
            "example.clip.bound",
            clip,
            "a smaller clip would cut what is learned from"
            if clip == least or rate < fastest
            else "with this little noise the clip need not cut",
        ),
        Choice("aggregate.weights", "records", "sites with more records have less noise on each, and count for more"),
        *_SMOOTHING,
        Choice("stop.rounds", rounds, "as many as momentum needs; ε is the same for any number, σ is solved for it"),
    )


def _limited_cohort(clients: int, rounds: int, stated: Mapping[str, Any]) -> tuple[tuple[Choice, ...], int, int]:
    """Who takes part, how many in a round, and how often one client does."""
    size = _stated_number(stated, "cohort.size")
    if not is_stated(stated, "cohort.size") and clients <= MOST_TOGETHER:
        everyone = Choice("cohort", {"kind": "everyone"}, f"{clients} clients: all take part in every round")
        return (everyone,), clients, rounds
    size = MOST_TOGETHER if size is None else max(int(size), 1)
    uses = max(math.ceil(rounds * size / clients), 1)
    limited = Choice(
        "cohort",
        {"kind": "fixed", "size": size, "most": uses},
        f"{clients:,} clients: {size} a round, and each in at most {uses} rounds, which is what it pays for",
    )
    return (limited,), size, uses


def _clients(facts: PublicFacts, stated: Mapping[str, Any], model: Choice) -> tuple[Choice, ...]:
    """All that a client holds, against readers of the model: noise at the server, on the sum of the updates."""
    rounds = int(_stated_number(stated, "stop.rounds") or CLIENT_ROUNDS)
    mean = 1.0 if facts.budget is None else mean_of_epsilon(facts.budget.epsilon, facts.budget.delta)
    chance, why = _chance(facts.clients, mean, rounds, _stated_number(stated, "cohort.rate"))
    together = chance * facts.clients
    # μ of T rounds by the central limit theorem, solved for σ; the accountant solves for the real one.
    sigma = math.log1p(mean**2 / (chance**2 * rounds)) ** -0.5 if chance < 1 else math.sqrt(rounds) / mean
    start = _rounded(CLIENT_OUTPUT_NOISE * (1 - MOMENTUM) * together / (math.sqrt(rounds) * sigma))
    counts = _rounded(max(together / 20, 2 * sigma))
    own = model.reason == NAMED
    rate, why_rate = _client_rate(facts.outputs, start, own)
    return (
        *_row_features(facts, model, start / CLIENT_OUTPUT_NOISE),
        Choice("cohort", {"kind": "poisson", "rate": chance}, why),
        Choice(
            "batch.kind",
            "all",
            "all of a client's records in each of its steps; noise is added later, by the server",
        ),
        Choice("local.steps", LOCAL_STEPS, "a few steps give an update more direction; its length is clipped anyway"),
        Choice("local.rate", rate, why_rate),
        Choice(
            "server.clip.bound",
            {"kind": "quantile", "start": start, "target": 0.2, "sigma": counts, "rate": 0.2},
            f"a noisy quantile of the updates' lengths, from {start:g} on, where the noise of all rounds would be near"
            f" {CLIENT_OUTPUT_NOISE:g} in the outputs; reading it is paid for",
        ),
        *_SMOOTHING,
        Choice("stop.rounds", rounds, "few rounds with many clients each: ε is the same for any number"),
    )


def _client_rate(outputs: int, start: float, own: bool) -> tuple[float, str]:
    """The rate of a client's steps, and why. `start` is the length of update that noise allows."""
    if own:
        return OTHER_CLIENT_RATE, "nothing is known of your network"
    if outputs == 1:
        return 0.5, "squared errors curve by 1 wherever the model is"
    slow = float(min(outputs, 10))
    why = f"the curvature at the start is one over the number of classes ({outputs})"
    stretch = min(max(start, 1.0), LONGEST_STRETCH)
    if stretch == 1:
        return slow, why
    return _rounded(slow * stretch), f"{why}; noise allows steps {stretch:g} times as long"


def _chance(clients: int, mean: float, rounds: int, stated: float | None) -> tuple[float, str]:
    """With which probability a client joins a round, and why."""
    if stated is not None:
        return min(max(stated, 1e-6), 1.0), "you stated it"
    # Coins hide so much that half the clients, with half of σ, have the same noise on their mean; until μ²/(p²T) grows.
    free = mean / math.sqrt(rounds * FREE_SAMPLING)
    chance = max(min(free, LARGEST_COHORT / clients), SMALLEST_COHORT / clients)
    if chance >= 1:
        return 1.0, f"{clients:,} clients: all take part in every round"
    chance = _rounded(chance)
    return (
        chance,
        f"about {chance * clients:,.0f} of {clients:,} clients a round, by hidden coins: more of them gain little",
    )


DOORS: dict[str, Callable[[PublicFacts, Mapping[str, Any], Choice], tuple[Choice, ...]]] = {
    "private-records": _records,
    "private-clients": _clients,
}


def is_stated(settings: Mapping[str, Any], key: str) -> bool:
    """Whether the user gave a dotted key, or something in it."""
    return _stated(settings, key) is not None


def _stated(settings: Mapping[str, Any], key: str) -> Any:
    """What the user gave for a dotted key; None where nothing was given."""
    value: Any = settings
    for part in key.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _stated_number(settings: Mapping[str, Any], key: str) -> float | None:
    """The positive number that the user gave. One that can't be is as if not given: the spec's check refuses it."""
    value = _stated(settings, key)
    number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
    return value if number else None


def _rounded(value: float) -> float:
    """To two digits: the rules are no more exact than that."""
    return float(f"{value:.2g}")


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_text(inner)}" for key, inner in value.items()) + "}"
    return str(value)

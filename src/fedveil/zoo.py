"""Every named method, with its paper. A newcomer starts here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fedveil.core.errors import FedveilError
from fedveil.core.suggestions import did_you_mean
from fedveil.core.types import Unit
from fedveil.mechanisms.adaptive import CohortMedian, Histogram, Quantile
from fedveil.mechanisms.clip import Bound, Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import Constant, Exponential, Linear, Polynomial
from fedveil.method import Method
from fedveil.parts.aggregation import Aggregation
from fedveil.parts.batches import AllocatedBatch, FullBatch, PartitionBatch, PoissonBatch, WithoutReplacement
from fedveil.parts.cohorts import Everyone, FixedSize, PoissonCohort
from fedveil.parts.compression import Share
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.optimisers import Adam, Momentum
from fedveil.parts.personal import Interpolated

# McMahan et al. (2017): L local steps, then the mean. The base that every other method changes.
FED_AVG = Method()

# McMahan et al. (2017): one gradient of all the client's data per round.
FED_SGD = replace(FED_AVG, batch=FullBatch(), local=LocalTraining(steps=1, rate=Constant(0.5)))

# Wei et al. (2021), Algorithm 1: the server clips each client's update layer by layer and adds noise to every one.
FED_SDP = replace(
    FED_AVG, server=Gaussian(clip=Clip(Constant(4.0), by="layer"), sigma=6.0, noise="row", unit=Unit.CLIENT)
)

# The same clipping and noise, but on the client, before anybody sees the update.
FED_SDP_CLIENT = replace(FED_AVG, upload=Gaussian(clip=Clip(Constant(4.0), by="layer"), sigma=6.0, unit=Unit.CLIENT))

# Wei et al. (2021), Algorithm 2: every example's gradient is clipped layer by layer and gets its own noise. The paper
# does not state the learning rate; with this much noise only a small one learns (docs/results/index.md).
FED_CDP = replace(
    FED_AVG,
    local=LocalTraining(rate=Constant(0.002)),
    example=Gaussian(clip=Clip(Constant(4.0), by="layer"), sigma=6.0, noise="row"),
)

# The same with the clipping bound falling linearly over the rounds.
FED_CDP_DECAY = replace(FED_CDP, example=Gaussian(clip=Clip(Linear(6.0, 2.0), by="layer"), sigma=6.0, noise="row"))

# As the authors' code does it: noise once per batch, on the sum.
FED_CDP_BATCH = replace(FED_CDP, example=Gaussian(clip=Clip(Constant(4.0), by="layer"), sigma=6.0, noise="sum"))

# The same with a sampler that has a proof: each record in one of a round's steps, chosen by itself (Feldman and
# Shenfeld 2025). Fed-CDP's batches, steps and noise, and an ε below the one that the paper claims.
FED_CDP_ALLOCATED = replace(FED_CDP, batch=AllocatedBatch(5))

# What the same idea can promise for a given ε: Poisson batches, a limit of rounds per client, σ solved for the target.
# One large batch a round needs less noise for the same ε than many small ones.
FED_CDP_CALIBRATED = replace(
    FED_AVG,
    cohort=FixedSize(100, most=10),
    batch=PoissonBatch(100),
    local=LocalTraining(steps=1, rate=Constant(1.0)),
    example=Gaussian(clip=Clip(Constant(0.3)), sigma=3.5),
    aggregate=Aggregation(optimiser=Momentum(0.9)),
)

# The front door for a record: all records in each step, one step a round, noise on the client, models averaged. Its
# numbers are chosen for the data at hand (config/front_doors.py); those here are where nothing is chosen.
PRIVATE_RECORDS = replace(
    FED_AVG,
    cohort=Everyone(),
    batch=FullBatch(),
    local=LocalTraining(steps=1, rate=Constant(1.0)),
    example=Gaussian(clip=Clip(Constant(0.4)), sigma=1.0),
    aggregate=Aggregation(optimiser=Momentum(0.9), weights="records", average=0.25),
)

# The front door for a client: a few local steps, noise at the server on the sum of clipped updates, a private bound.
PRIVATE_CLIENTS = replace(
    FED_AVG,
    cohort=PoissonCohort(1.0),
    batch=FullBatch(),
    local=LocalTraining(steps=5, rate=Constant(2.0)),
    server=Gaussian(clip=Clip(Quantile(start=1.0, target=0.2, sigma=10.0)), sigma=1.0, unit=Unit.CLIENT),
    aggregate=Aggregation(optimiser=Momentum(0.9), average=0.25),
)

# Geyer et al. (2017), Algorithm 1: the sum of the updates, clipped at the median of their norms, gets the noise once.
GEYER = replace(
    FED_AVG,
    batch=PartitionBatch(10),
    local=LocalTraining(epochs=4, rate=Exponential(0.1, 0.03)),
    server=Gaussian(clip=Clip(CohortMedian()), sigma=1.0, unit=Unit.CLIENT),
)

# The same with what the paper leaves to future work: a private bound, and the sampling that its accounting assumes.
GEYER_PRIVATE = replace(
    GEYER,
    cohort=PoissonCohort(0.1),
    server=Gaussian(clip=Clip(Quantile(start=1.0, target=0.5, sigma=10.0)), sigma=1.0, unit=Unit.CLIENT),
)


def _ldp_sgd(bound: Bound) -> Method:
    """Federated LDP-SGD: each client sends one gradient of its data, clipped and noised by itself."""
    return replace(
        FED_AVG,
        batch=FullBatch(),
        local=LocalTraining(steps=1, rate=Constant(1.0)),
        upload=Gaussian(clip=Clip(bound), sigma=1.0, unit=Unit.CLIENT),
        aggregate=Aggregation(rate=Constant(1.0)),
    )


LDP_SGD = _ldp_sgd(Constant(0.05))
LDP_SGD_POLY = _ldp_sgd(Polynomial(start=0.05, power=0.5))
LDP_SGD_QUANTILE = _ldp_sgd(Quantile(start=0.01, target=0.5, sigma=5.0, rate=0.2))
LDP_SGD_MEDIAN = _ldp_sgd(Histogram(start=0.01, sigma=8.0, every=1000))

# Zheng et al. (2021), Algorithms 1 and 2: noisy Adam from a helper model of one's own. The paper writes the noise as
# N(0, 4C²σ²): replace-one doubles the sensitivity, so σ = 1 there is 2 here.
PRIFEDSYNC = replace(
    FED_AVG,
    cohort=PoissonCohort(1.0),
    batch=WithoutReplacement(16),
    local=LocalTraining(steps=38, optimiser=Adam(), rate=Constant(0.001)),
    example=Gaussian(clip=Clip(Constant(1.0)), sigma=2.0),
    personal=Interpolated(alpha=0.1),
)

# Shokri and Shmatikov (2015): only the largest tenth of the update is shared.
DSSGD = replace(FED_AVG, compress=Share(fraction=0.1, choice="largest"))


@dataclass(frozen=True)
class Entry:
    """A method with its paper and a summary, and the settings of data, model and privacy that belong to it."""

    method: Method
    paper: str
    summary: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what it changes on single data sets


_WEI, _GEYER, _CLIPPING = "Wei et al. 2021", "Geyer et al. 2017", "clipping size in federated LDP-SGD"
_CALIBRATED = {"privacy": {"epsilon": 0.8227, "calibrate": True}}
# All records in every step, and a linear model on features that were made from nobody's records. Chosen on a part of
# MNIST's training records that was held out for it (docs/methods/fed-cdp-calibrated.md).
_ON_DIGITS = {
    "model": {"name": "scattering"},
    "batch": {"kind": "all"},
    "example": {"clip": 0.375},
    "local": {"rate": 10.0},
}
_RECORD_DOOR = {"privacy": {"epsilon": 1.0, "unit": "record", "view": "server", "calibrate": True}}
_CLIENT_DOOR = {"privacy": {"epsilon": 8.0, "unit": "client", "view": "released", "calibrate": True}}
_CLIENT_BUDGET = {"privacy": {"epsilon": 8.0, "delta": 1e-5, "unit": "client", "view": "released"}}
_OWN_TESTS = {"data": {"clients": 100, "test": 50}}

ZOO: dict[str, Entry] = {
    "private-records": Entry(
        PRIVATE_RECORDS,
        "a front door",
        "hides a record from the server: noise on the client for the ε you ask, all else chosen from public facts",
        _RECORD_DOOR,
    ),
    "private-clients": Entry(
        PRIVATE_CLIENTS,
        "a front door",
        "hides a client from readers of the model: noise at the server for the ε you ask, all else from public facts",
        _CLIENT_DOOR,
    ),
    "fedsgd": Entry(FED_SGD, "McMahan et al. 2017", "no privacy: one gradient of each client's data per round"),
    "fedavg": Entry(FED_AVG, "McMahan et al. 2017", "no privacy: local training, then the mean"),
    "fed-sdp": Entry(FED_SDP, _WEI, "every client's update clipped and noised at the server, C = 4, σ = 6"),
    "fed-sdp-client": Entry(FED_SDP_CLIENT, _WEI, "the same on the client, before the update leaves"),
    "fed-cdp": Entry(FED_CDP, _WEI, "per-example clipping and noise on the client, C = 4, σ = 6"),
    "fed-cdp-decay": Entry(FED_CDP_DECAY, _WEI, "Fed-CDP with the clip falling linearly from 6 to 2"),
    "fed-cdp-batch": Entry(FED_CDP_BATCH, _WEI, "Fed-CDP with noise once per batch, as the authors' code does it"),
    "fed-cdp-allocated": Entry(
        FED_CDP_ALLOCATED, _WEI, "Fed-CDP with every record in one random step of a round, which has a proof"
    ),
    "fed-cdp-calibrated": Entry(
        FED_CDP_CALIBRATED,
        _WEI,
        "large batches, at most 10 rounds a client, σ solved for ε = 0.8227",
        _CALIBRATED,
        {"mnist": _ON_DIGITS},
    ),
    "geyer": Entry(GEYER, _GEYER, "client-level noise on the sum, clipped at the median of norms (not private)"),
    "geyer-private": Entry(GEYER_PRIVATE, _GEYER, "the same with a private bound and a budget ε = 8", _CLIENT_BUDGET),
    "ldp-sgd": Entry(LDP_SGD, _CLIPPING, "one clipped and noised gradient per client, C = 0.05"),
    "ldp-sgd-poly": Entry(LDP_SGD_POLY, _CLIPPING, "the same with the clip falling as a power of the rounds left"),
    "ldp-sgd-quantile": Entry(LDP_SGD_QUANTILE, _CLIPPING, "the same with the clip at a noisy quantile of the norms"),
    "ldp-sgd-median": Entry(LDP_SGD_MEDIAN, _CLIPPING, "the same with the clip at the median of a noisy histogram"),
    "prifedsync": Entry(PRIFEDSYNC, "Zheng et al. 2021", "noisy Adam from a model of one's own, σ = 1", _OWN_TESTS),
    "dssgd": Entry(DSSGD, "Shokri and Shmatikov 2015", "no privacy: only the largest tenth of the update is sent"),
}


def named(name: str) -> Method:
    """The method of that name."""
    if name not in ZOO:
        near = did_you_mean(name, ZOO) or f"; there are {', '.join(ZOO)}"
        raise FedveilError(f"method: there is no method {name!r}{near}")
    return ZOO[name].method

"""Every named method, with its paper. A newcomer starts here."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedveil.core.errors import FedveilError
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import Constant, Linear
from fedveil.method import Method
from fedveil.parts.batches import FullBatch
from fedveil.parts.local import LocalTraining

# McMahan et al. (2017): L local steps, then the mean. The base that every other method changes.
FED_AVG = Method()

# McMahan et al. (2017): one gradient of all the client's data per round.
FED_SGD = replace(FED_AVG, batch=FullBatch(), local=LocalTraining(steps=1, rate=Constant(0.5)))

# Wei et al. (2021), Algorithm 2: every example's gradient is clipped layer by layer and gets its own noise. The paper
# does not state the learning rate; with this much noise only a small one learns (docs/results.md).
FED_CDP = replace(
    FED_AVG,
    local=LocalTraining(rate=Constant(0.002)),
    example=Gaussian(clip=Clip(Constant(4.0), by="layer"), sigma=6.0, noise="row"),
)

# The same with the clipping bound falling linearly over the rounds.
FED_CDP_DECAY = replace(FED_CDP, example=Gaussian(clip=Clip(Linear(6.0, 2.0), by="layer"), sigma=6.0, noise="row"))


@dataclass(frozen=True)
class Entry:
    """A method with the words that list it."""

    method: Method
    paper: str
    summary: str


ZOO: dict[str, Entry] = {
    "fedsgd": Entry(FED_SGD, "McMahan et al. 2017", "no privacy: one gradient of each client's data per round"),
    "fedavg": Entry(FED_AVG, "McMahan et al. 2017", "no privacy: local training, then the mean"),
    "fed-cdp": Entry(FED_CDP, "Wei et al. 2021", "per-example clipping and noise on the client, C = 4, σ = 6"),
    "fed-cdp-decay": Entry(FED_CDP_DECAY, "Wei et al. 2021", "Fed-CDP with the clip falling linearly from 6 to 2"),
}


def named(name: str) -> Method:
    """The method of that name."""
    if name not in ZOO:
        raise FedveilError(f"method: there is no method {name!r}; there are {', '.join(ZOO)}")
    return ZOO[name].method

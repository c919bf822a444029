"""The settings of a reconstruction attack ⇄ tables. Apart from specs, whose readers need no attack."""

from __future__ import annotations

from fedveil.attacks.inversion import distances, invert, labels, regularisers, seeds
from fedveil.config.convert import KINDS, Conversion

INVERSIONS = Conversion(
    (*KINDS, seeds.Seed, distances.Distance, regularisers.Regulariser, labels.Label, invert.Minimiser)
)

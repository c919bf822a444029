"""A score that the adversary learns: the linear combination of what it saw that best tells "in" from "out".

Fisher's discriminant: the difference of the two means, divided by the scatter within them. Where noise is as declared,
it is close to the best fixed score. Where a part carries no noise, or the same noise as another part, the scatter
vanishes in some direction, and that direction gets almost all of the weight.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

RIDGE_OF_SCATTER = 1e-6
"""What is added to the scatter of standardised readings, so that it can be inverted."""


def learned_weights(readings: npt.NDArray[np.float64], members: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Weights `[d]` for readings `[n, d]`; zeros where nothing can be learned: one side is missing, nothing varies."""
    weights = np.zeros(readings.shape[1])
    spread = readings.std(axis=0)
    varying = spread > 0
    if not members.any() or members.all() or not varying.any():
        return weights
    standardised = readings[:, varying] / spread[varying]
    means = [standardised[side].mean(axis=0) for side in (members, ~members)]
    centred = np.where(members[:, None], standardised - means[0], standardised - means[1])
    scatter = centred.T @ centred / len(centred)
    scatter += RIDGE_OF_SCATTER * np.eye(len(scatter))
    weights[varying] = np.linalg.solve(scatter, means[0] - means[1]) / spread[varying]
    return weights

"""Which model a client starts from, and whether it keeps one of its own.

Everything here is computed from models that clients have uploaded, so it costs no privacy beyond what the uploads cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedveil.core.checks import FieldError, positive
from fedveil.core.deferred import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Shared:
    """One global model for everybody; nothing is kept."""

    kind: ClassVar[str] = "shared"


@dataclass(frozen=True)
class Identity:
    """Everybody starts from the global model; each client's model as it was after its last training is kept."""

    kind: ClassVar[str] = "identity"

    def helpers(self, own: Tensor, shared: Tensor) -> Tensor:
        return shared.expand_as(own)


@dataclass(frozen=True)
class Interpolated:
    """h_i = (1 − α)·w_i + α·w_global (PriFedSync, equation 2.1)."""

    kind: ClassVar[str] = "interpolated"
    alpha: float = 0.1

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)

    def helpers(self, own: Tensor, shared: Tensor) -> Tensor:
        """The models `[K, P]` to start from, from the clients' own `[K, P]` and the global one `[P]`."""
        return _mixed(own, shared, self.alpha)


@dataclass(frozen=True)
class Attention:
    """h_i = (1 − α)·w_i + α·Σ_j a_ij·w_j over the cohort, a_ij ∝ exp(−‖w_i − w_j‖² / (τ·d²)), j ≠ i.

    Clients with like models help one another more (Huang et al. 2020). d² is the mean squared distance within the
    cohort, so that the temperature τ has no unit. A client alone in its cohort starts from its own model. Other
    clients' models reach a peer mixed but whole, so a peer is accounted like the server.
    """

    kind: ClassVar[str] = "attention"
    alpha: float = 0.5
    temperature: float = 1.0

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)
        positive("temperature", self.temperature)

    def weights(self, models: Tensor) -> Tensor:
        """a `[m, m]` from the cohort's models `[m, P]`; rows sum to one, the diagonal is zero."""
        count = len(models)
        centred = models - models.mean(dim=0)  # distances do not change, rounding does
        squares = centred.square().sum(dim=-1)
        distances = (squares[:, None] + squares[None, :] - 2 * centred @ centred.T).clamp_min(0.0)
        scale = distances.sum() / max(count * (count - 1), 1)
        scores = -distances / (self.temperature * scale.clamp_min(1e-30))
        scores.fill_diagonal_(-torch.inf)
        return torch.softmax(scores, dim=-1) if count > 1 else models.new_ones(1, 1)

    def mixtures(self, models: Tensor) -> Tensor:
        """The models `[m, P]` to start from, for the whole cohort at once."""
        return _mixed(models, self.weights(models) @ models, self.alpha)


def _mixed(own: Tensor, other: Tensor, alpha: float) -> Tensor:
    """Two roundings per entry wherever it lies in memory, which fused operations do not promise."""
    return own * (1 - alpha) + other * alpha


def _check_alpha(alpha: float) -> None:
    if not 0 <= alpha <= 1:
        raise FieldError("alpha", f"must lie between 0 and 1, not {alpha}")


Personalisation = Shared | Identity | Interpolated | Attention

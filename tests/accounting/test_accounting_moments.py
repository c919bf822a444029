"""The divergences that the papers' accountant adds up, against those of dp_accounting."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant as rdp

from fedveil.accounting.claims import MOMENT_ORDERS
from fedveil.accounting.moments import sampled_gaussian_divergences
from fedveil.accounting.renyi import quiet

CASES = [(6.0, 0.01), (6.0, 0.1), (1.0, 0.01), (0.5, 0.1), (2.0, 0.9), (100.0, 0.5), (1.2, 0.05), (2.0, 1.0)]


@pytest.mark.parametrize(("noise", "rate"), CASES)
def test_all_orders_are_those_of_dp_accounting(noise: float, rate: float) -> None:
    accountant = rdp.RdpAccountant(MOMENT_ORDERS)
    with quiet():
        accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise)))
    found = sampled_gaussian_divergences(noise, rate, MOMENT_ORDERS)
    np.testing.assert_allclose(found, accountant.rdp, rtol=1e-6)  # also in which orders are left out


def test_so_little_noise_that_nothing_can_be_computed_counts_as_no_privacy() -> None:
    assert math.isinf(sampled_gaussian_divergences(1e-160, 0.5, [512])[0])

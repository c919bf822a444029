"""Bounds that follow the norms: what a report reveals at most, and where the bound goes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedveil.core.errors import FedveilError
from fedveil.core.streams import Address, Purpose, Streams
from fedveil.core.types import Sampling, Unit
from fedveil.mechanisms.adaptive import LEAST_BOUND, MOST_BOUND, CohortMedian, Histogram, Quantile
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.noise import NoiseSource

ONE = Sampling("all", 1, 1, 1, 1)
norms = st.lists(st.floats(0, 1e6, width=32) | st.sampled_from([math.nan, math.inf]), min_size=1, max_size=20)
RULES = [Quantile(start=1.0), Histogram(start=1.0)]


def mechanism(rule: Quantile | Histogram | CohortMedian, sigma: float = 1.0) -> Gaussian:
    return Gaussian(clip=Clip(rule), sigma=sigma, unit=Unit.CLIENT)


# What a report reveals.


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
@given(lengths=norms, bound=st.floats(1e-6, 1e6))
def test_one_contribution_changes_the_sum_of_reports_by_noise_over_multiplier(
    rule: Quantile | Histogram, lengths: list[float], bound: float
) -> None:
    """Sensitivity Δ of the reports and noise σ make the declared multiplier σ/Δ."""
    reports = rule.report(torch.tensor(lengths), bound)
    assert reports.shape == (len(lengths), rule.width)
    whole = reports.sum(dim=0)
    for left_out in range(len(lengths)):
        without = torch.cat([reports[:left_out], reports[left_out + 1 :]]).sum(dim=0)
        change = float((whole - without).norm())
        assert change == pytest.approx(rule.sigma / rule.multiplier)


def test_the_multipliers_are_twice_the_noise_of_a_count_and_the_noise_of_a_histogram() -> None:
    assert Quantile(start=1.0, sigma=5.0).multiplier == 10.0
    assert Histogram(start=1.0, sigma=8.0).multiplier == 8.0


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_the_noise_on_reports_has_the_declared_size(rule: Quantile | Histogram) -> None:
    addresses = [Address(0, client) for client in range(4000)]
    reports = torch.zeros(4000, rule.width)
    now = mechanism(rule).at(0, 10)
    now.add_to_reports(reports, source=NoiseSource(Streams.from_seed(1)), addresses=addresses)
    assert reports.std() == pytest.approx(rule.sigma, rel=5 / math.sqrt(2 * reports.numel()))
    assert now.declare(place="upload", layers=1, steps=1, sampling=ONE).report == rule.multiplier


def test_reports_and_sums_draw_from_streams_of_their_own() -> None:
    source, address = NoiseSource(Streams.from_seed(1)), [Address(3, 2)]
    draws = [
        source.integers(purpose, address, 50)
        for purpose in (Purpose.REPORT_NOISE, Purpose.SERVER_NOISE, Purpose.UPLOAD_NOISE)
    ]
    assert not torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[1], draws[2])


# What the contributions' noise becomes.


@given(z=st.floats(0.05, 20), ratio=st.floats(0.51, 50))
def test_sum_and_count_together_have_the_multiplier_asked_for(z: float, ratio: float) -> None:
    """A Gaussian mechanism on (sum/S, count/½) has z^−2 = z_Δ^−2 + (2σ_b)^−2."""
    rule = Quantile(start=1.0, sigma=ratio * z)
    share = rule.share_of(z)
    assert share > z
    assert (share**-2 + (2 * rule.sigma) ** -2) ** -0.5 == pytest.approx(z, rel=1e-6)


def test_the_noise_on_a_sum_uses_the_grown_multiplier() -> None:
    now = mechanism(Quantile(start=3.0, sigma=0.8), sigma=1.0).at(0, 10)
    assert now.sum_std(1) == pytest.approx(3.0 / math.sqrt(1 - 1 / 1.6**2))
    assert mechanism(Quantile(start=3.0, sigma=0.8), sigma=1.0).at(5, 10, 7.0).bound == 7.0


def test_a_histogram_leaves_the_contributions_their_noise_and_reports_only_every_so_often() -> None:
    gaussian = mechanism(Histogram(start=2.0, every=3), sigma=1.5)
    for round in range(7):
        now = gaussian.at(round, 10)
        assert now.sum_std(1) == 3.0
        assert (now.reporter is not None) == (round in (0, 3, 6))
        declared = now.declare(place="upload", layers=1, steps=1, sampling=ONE)
        assert declared.report == (8.0 if round in (0, 3, 6) else None)


def test_counts_too_quiet_for_the_noise_asked_for_are_refused() -> None:
    with pytest.raises(FedveilError, match=r"sigma of the counts must be above 1, half the noise multiplier"):
        mechanism(Quantile(start=1.0, sigma=1.0), sigma=2.0)
    with pytest.raises(FedveilError, match="sigma of the counts"):
        mechanism(Quantile(start=1.0, sigma=0.9), sigma=2.0)


def test_the_cohorts_own_median_says_that_it_leaks() -> None:
    assert mechanism(CohortMedian()).at(0, 1).declare(place="server", layers=1, steps=1, sampling=ONE).leaks_bound
    assert not mechanism(Quantile(1.0)).at(0, 1).declare(place="server", layers=1, steps=1, sampling=ONE).leaks_bound


# Where the bound goes.


@pytest.mark.parametrize("target", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("start", [0.01, 100.0])
def test_the_bound_converges_to_the_target_quantile(target: float, start: float) -> None:
    generator = torch.Generator().manual_seed(1)
    rule, bound, cohort, tail = Quantile(start, target, sigma=5.0), start, 100, []
    source = NoiseSource(Streams.from_seed(2))
    now = mechanism(rule).at(0, 10)
    for round in range(600):
        lengths = torch.randn(cohort, generator=generator).exp()
        total = rule.report(lengths, bound).sum(dim=0, keepdim=True)
        now.add_to_reports(total, source=source, addresses=[Address(round)])
        bound = rule.next(bound, total[0], cohort)
        tail += [math.log(bound)] if round >= 300 else []
    quantile = float(torch.distributions.Normal(0.0, 1.0).icdf(torch.tensor(target)))
    assert sum(tail) / len(tail) == pytest.approx(quantile, abs=0.1)


def test_the_update_is_geometric_in_the_share_below() -> None:
    rule = Quantile(start=1.0, target=0.5, rate=0.2)
    assert rule.next(3.0, torch.tensor([5.0]), 10) == pytest.approx(3.0 * math.exp(-0.2 * 0.5))  # all below
    assert rule.next(3.0, torch.tensor([-5.0]), 10) == pytest.approx(3.0 * math.exp(0.2 * 0.5))  # none below
    assert rule.next(3.0, torch.tensor([0.0]), 10) == pytest.approx(3.0)


def test_a_count_of_exactly_the_bound_is_below_and_of_nothing_finite_above() -> None:
    lengths = torch.tensor([1.0, 1.0001, math.nan, math.inf, 0.0])
    assert Quantile(start=1.0).report(lengths, 1.0).squeeze(-1).tolist() == [0.5, -0.5, -0.5, -0.5, 0.5]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
@given(noise=st.floats(-1e30, 1e30), bound=st.floats(LEAST_BOUND, MOST_BOUND))
def test_no_noise_drives_the_bound_out_of_its_range(rule: Quantile | Histogram, noise: float, bound: float) -> None:
    following = rule.next(bound, torch.full((rule.width,), noise, dtype=torch.float64), 3.0)
    assert LEAST_BOUND <= following <= MOST_BOUND


@given(power=st.integers(-9, 3), share=st.floats(0.501, 0.999))
def test_a_histogram_of_like_norms_leads_to_the_middle_of_their_bin(power: int, share: float) -> None:
    rule = Histogram(start=1.0)
    total = rule.report(torch.full((9,), 2.0 ** (power - 1 + share)), 1.0).sum(dim=0)
    assert rule.next(1.0, total, 9) == pytest.approx(2.0 ** (power - 0.5))


def test_bins_are_closed_above_and_the_ends_catch_everything() -> None:
    rule = Histogram(start=1.0, lowest=-1, highest=1)  # … ½, 1, 2 …
    lengths = [0.0, 0.5, 0.50001, 1.0, 1.5, 2.0, 2.0001, 1e30, math.inf, math.nan]
    bins = rule.report(torch.tensor(lengths), 1.0).argmax(dim=-1).tolist()
    assert bins == [0, 0, 1, 1, 2, 2, 3, 3, 3, 3]
    assert rule.width == 4


def test_the_median_bin_is_where_half_the_counts_are_reached() -> None:
    rule = Histogram(start=1.0, lowest=-1, highest=1)
    assert rule.next(9.0, torch.tensor([0.0, 3.0, 2.0, 0.0]), 5) == pytest.approx(2**-0.5)
    assert rule.next(9.0, torch.tensor([0.0, 2.0, 3.0, 0.0]), 5) == pytest.approx(2**0.5)
    assert rule.next(9.0, torch.tensor([-100.0, 2.0, 3.0, -100.0]), 5) == pytest.approx(2**0.5)  # noise below zero


def test_the_end_bins_have_no_middle_and_stand_for_a_tenth_and_ten_times_the_start() -> None:
    rule = Histogram(start=0.3, lowest=-1, highest=1)
    assert rule.next(9.0, torch.tensor([5.0, 1.0, 1.0, 1.0]), 8) == pytest.approx(0.03)
    assert rule.next(9.0, torch.tensor([1.0, 1.0, 1.0, 5.0]), 8) == pytest.approx(3.0)


def test_a_histogram_of_nothing_but_negative_noise_leaves_the_bound() -> None:
    assert Histogram(start=0.3).next(9.0, torch.full((15,), -1.0), 8) == 9.0


def test_the_cohorts_median_is_one_of_the_norms_and_ignores_what_is_not_finite() -> None:
    rule = CohortMedian()
    assert rule.of(torch.tensor([3.0, 1.0, 2.0])) == 2.0
    assert rule.of(torch.tensor([4.0, 1.0, 2.0, 3.0])) == 2.0  # the lower of the two middle ones
    assert rule.of(torch.tensor([math.nan, 5.0, math.inf])) == 5.0
    assert rule.of(torch.tensor([0.0, 0.0, 0.0])) == LEAST_BOUND
    assert rule.of(torch.tensor([1e30])) == MOST_BOUND
    assert rule.of(torch.tensor([math.nan])) == rule.of(torch.zeros(0)) == 1.0


# What cannot work.


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("name", ["start", "sigma", "rate"])
def test_values_that_are_not_positive_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(FedveilError, match=f"^{name} must be a positive number"):
        Quantile(**{"start": 1.0, name: value})
    if name != "rate":
        with pytest.raises(FedveilError, match=f"^{name} must be a positive number"):
            Histogram(**{"start": 1.0, name: value})


@pytest.mark.parametrize("target", [0.0, 1.0, -0.1, 1.1, math.nan])
def test_a_target_that_is_no_share_is_refused(target: float) -> None:
    with pytest.raises(FedveilError, match="target must lie strictly between 0 and 1"):
        Quantile(start=1.0, target=target)


@pytest.mark.parametrize(("lowest", "highest"), [(3, 3), (4, 3), (-41, 0), (0, 41)])
def test_bins_that_do_not_rise_or_leave_single_precision_are_refused(lowest: int, highest: int) -> None:
    with pytest.raises(FedveilError, match="lowest and highest must rise"):
        Histogram(start=1.0, lowest=lowest, highest=highest)


def test_following_the_norms_layer_by_layer_or_with_noise_on_rows_is_refused() -> None:
    with pytest.raises(FedveilError, match=r"clip\.bound follows the norms only for flat"):
        Gaussian(clip=Clip(Quantile(start=1.0), by="layer"), sigma=1.0)
    with pytest.raises(FedveilError, match=r"clip\.bound follows the norms only for flat"):
        Gaussian(clip=Clip(CohortMedian()), sigma=1.0, noise="row")

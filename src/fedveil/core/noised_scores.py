"""Figures from noised counts of right and wrong answers. Shares are kept between 0 and 1, which costs nothing."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.core.scores import ClassScores


def scores_from_counts(
    right: Sequence[float], wrong: Sequence[float], loss: float, records: int, names: Sequence[str]
) -> ClassScores:
    """The figures of `records` records; `right[c]` of class c were recognised and `wrong[c]` were not, about.

    A class is said to occur if the noised counts have half a record of it. What needs single answers is not known.
    """
    sizes = [max(yes + no, 0.0) for yes, no in zip(right, wrong, strict=True)]
    commonest = max(range(len(sizes)), key=sizes.__getitem__)
    recognised = [_share(yes, size) for yes, size in zip(right, sizes, strict=True) if size >= 0.5]
    return ClassScores(
        records=records,
        accuracy=_share(sum(right), records),
        majority=_share(sizes[commonest], records),
        commonest=names[commonest],
        balanced_accuracy=sum(recognised) / len(recognised) if recognised else None,
        auc=None,
        log_loss=max(loss / records, 0.0),
        calibration_error=None,
    )


def _share(part: float, whole: float) -> float:
    return min(max(part / whole, 0.0), 1.0)

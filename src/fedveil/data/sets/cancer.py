"""Breast cancer (Wisconsin, diagnostic): 30 measurements of a tumour, from the copy inside scikit-learn.

Ten measures of the nuclei of its cells, seen through a microscope: columns 0–9 are their means over a picture's
cells, 10–19 the standard errors of these means, 20–29 the means of the three largest values. Each is scaled by round
numbers that follow from `NUCLEUS`; nothing is read off the records.
"""

from __future__ import annotations

import numpy as np

from fedveil.core.digests import text_digest
from fedveil.core.openness import Openness
from fedveil.data.named_set import ExampleArrays, NamedSet, RoughCosts, SplitArrays
from fedveil.data.public_scales import PublicScale, number_column, scaled_columns
from fedveil.data.schema import CategoryColumn, Schema
from fedveil.data.splits import stratified_split

NUCLEUS = {
    "radius": PublicScale(15, 5),  # micrometres; a large nucleus has twice the radius of a small one
    "texture": PublicScale(20, 5),  # how far grey values, from 0 to 255, differ within a nucleus
    "perimeter": PublicScale(100, 30),  # 2π·15 and 2π·5
    "area": PublicScale(700, 500),  # π·15² and 2π·15·5
    # Shares of the radius or of the outline. All nuclei are nearly round and even, give or take a fifth; how drawn out
    # they are differs by half, and dents may be missing altogether.
    "smoothness": PublicScale(0.1, 0.02),
    "compactness": PublicScale(0.1, 0.05),
    "concavity": PublicScale(0.1, 0.1),
    "concave points": PublicScale(0.05, 0.05),
    "symmetry": PublicScale(0.2, 0.04),
    "fractal dimension": PublicScale(0.06, 0.01),  # of the outline, above that of a smooth line
}
"""Centre and spread of the ten measures between tumours, in the order of the columns."""

_CELLS = 16
"""Cells of a picture, roughly: a standard error is the spread between cells over the square root of their number."""


def _of_error(scale: PublicScale) -> PublicScale:
    """Cells of one tumour are taken to differ as much as tumours do."""
    error = scale.spread / _CELLS**0.5
    return PublicScale(error, error)


def _of_largest(scale: PublicScale) -> PublicScale:
    """The largest cells are taken to lie one spread above the mean, and to differ twice as much."""
    return PublicScale(scale.centre + scale.spread, 2 * scale.spread)


COLUMN_SCALES = tuple(
    form(scale) for form in (lambda scale: scale, _of_error, _of_largest) for scale in NUCLEUS.values()
)

_FORMS = ("mean {}", "{} error", "worst {}")
_CLASSES = ("malignant", "benign")

CANCER_SCHEMA = Schema(
    columns=(
        *(
            number_column(name, scale)
            for name, scale in zip(
                (form.format(measure) for form in _FORMS for measure in NUCLEUS), COLUMN_SCALES, strict=True
            )
        ),
        CategoryColumn(name="target", categories=_CLASSES, spellings=(("0", "malignant"), ("1", "benign"))),
    ),
    target="target",
)
"""The same encoding for whoever has new tumours, with the names that scikit-learn has for the columns."""


def _load() -> SplitArrays:
    from sklearn.datasets import load_breast_cancer  # a second to import, and only needed here

    measured, labels = load_breast_cancer(return_X_y=True)
    train, validation = stratified_split("cancer", labels, 143)
    everything = ExampleArrays(scaled_columns(np.asarray(measured, dtype=np.float64), COLUMN_SCALES), labels)
    return SplitArrays(everything.pick(train), everything.pick(validation))


CANCER = NamedSet(
    name="cancer",
    description="measurements of breast tumours: malignant or benign?",
    class_names=_CLASSES,
    input_shape=(30,),
    files=(),
    origins=(),
    carried_by="scikit-learn",
    load=_load,
    task={
        "data": {"clients": 100, "records": 400, "partition": {"kind": "copy"}},
        "model": {"name": "mlp", "options": {"hidden": [64, 32]}},
        "cohort": {"kind": "fixed", "size": 10},
        "batch": {"kind": "partition", "size": 4},
        "local": {"steps": 100, "rate": 0.05},
        "stop": {"rounds": 3},
    },
    costs=RoughCosts(gradient_microseconds=8.0, evaluation_seconds=0.01),
    features=Openness.PUBLIC,
    validation_records=Openness.PUBLIC,
    encoding=text_digest(str(COLUMN_SCALES)),
    schema=CANCER_SCHEMA,
)

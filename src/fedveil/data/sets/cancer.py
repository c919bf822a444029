"""Breast cancer (Wisconsin, diagnostic): 30 measurements of a tumour, from the copy inside scikit-learn.

Every column is standardised with the means and deviations of the training part.
"""

from __future__ import annotations

import numpy as np

from fedveil.data.named_set import SCALED_TOGETHER, ExampleArrays, NamedSet, RoughCosts, SplitArrays
from fedveil.data.splits import stratified_split


def _load() -> SplitArrays:
    from sklearn.datasets import load_breast_cancer  # a second to import, and only needed here

    features, labels = load_breast_cancer(return_X_y=True)
    train, validation = stratified_split("cancer", labels, 143)
    mean, deviation = features[train].mean(axis=0), features[train].std(axis=0)
    everything = ExampleArrays(((features - mean) / deviation).astype(np.float32), labels)
    return SplitArrays(everything.pick(train), everything.pick(validation))


CANCER = NamedSet(
    name="cancer",
    description="measurements of breast tumours: malignant or benign?",
    class_names=("malignant", "benign"),
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
    caveats=(SCALED_TOGETHER,),
)

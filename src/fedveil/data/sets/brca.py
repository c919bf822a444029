"""TCGA-BRCA: clinical records of patients with breast cancer, from six regions. Was a death observed?

Rows, features and split are those of FLamby's Fed-TCGA-BRCA: the age, and 38 yes-or-no columns that stand for
categories of diagnosis, stage and treatment. Where FLamby predicts the time to an event (a survival analysis), the
label here is the event itself. Patients whose region or time is not known are in neither part.
"""

from __future__ import annotations

import csv
import io

import numpy as np

from fedveil.core.digests import text_digest
from fedveil.core.errors import FedveilError
from fedveil.core.openness import Openness
from fedveil.data import sources
from fedveil.data.named_set import ExampleArrays, NamedSet, RoughCosts, SplitArrays, join_sites
from fedveil.data.origins import files_at
from fedveil.data.public_scales import PublicScale, number_column, range_scale, scaled_columns
from fedveil.data.schema import CategoryColumn, FlagColumn, Schema
from fedveil.data.sources import Form, SourceFile

_PATIENTS = SourceFile((Form("brca/brca.csv", "07cb53423f7d579d33cfdbf2cba57b2aee75318b85866c68ce39a75b1f1ba020"),))
_FOLDS = SourceFile(
    (Form("brca/train_test_split.csv", "1249c6543a4060ff0fdaf8510fc37017755836db6c9fc5e6af96057c36510990"),)
)

REGIONS = ("Northeast", "South", "West", "Midwest", "Europe", "Canada")
"""In the order of FLamby's numbers, which are those of the folds."""

AGE = range_scale(30, 90)
"""Years at diagnosis: breast cancer is rare in adults below 30."""

FLAGS = (
    "ethnicity_not hispanic or latino",
    "ethnicity_not reported",
    "race_asian",
    "race_black or african american",
    "race_not reported",
    "race_white",
    "ajcc_pathologic_m_MX",
    "ajcc_pathologic_n_N0 (i-)",
    "ajcc_pathologic_n_N1",
    "ajcc_pathologic_n_N1a",
    "ajcc_pathologic_n_N2",
    "ajcc_pathologic_n_N2a",
    "ajcc_pathologic_stage_Stage IA",
    "ajcc_pathologic_stage_Stage IIA",
    "ajcc_pathologic_stage_Stage IIB",
    "ajcc_pathologic_stage_Stage IIIA",
    "ajcc_pathologic_stage_Stage IIIC",
    "ajcc_pathologic_t_T1c",
    "ajcc_pathologic_t_T2",
    "ajcc_pathologic_t_T3",
    "ajcc_staging_system_edition_5th",
    "ajcc_staging_system_edition_6th",
    "ajcc_staging_system_edition_7th",
    "icd_10_code_C50.9",
    "morphology_8500/3",
    "morphology_8520/3",
    "primary_diagnosis_Infiltrating duct carcinoma, NOS",
    "primary_diagnosis_Lobular carcinoma, NOS",
    "prior_malignancy_yes",
    "synchronous_malignancy_Not Reported",
    "treatment_or_therapy_not reported",
    "treatment_or_therapy_yes",
    "tumor_stage_stage i",
    "tumor_stage_stage ia",
    "tumor_stage_stage iia",
    "tumor_stage_stage iib",
    "tumor_stage_stage iiia",
    "tumor_stage_stage iiic",
)
"""What is said of a patient with yes or no, in the order of the file."""

_CLASSES = ("no death observed", "death observed")
BRCA_SCHEMA = Schema(
    columns=(
        number_column("age_at_index", AGE, unit="years"),
        *(FlagColumn(name=name) for name in FLAGS),
        CategoryColumn(name="E", categories=_CLASSES, spellings=(("0",), ("1",))),
    ),
    target="E",
    dropped=("pid", "T"),
)
"""The same encoding for whoever has new patients."""

_FEATURES = 1 + len(FLAGS)
_FLAMBY = "https://raw.githubusercontent.com/owkin/FLamby/edacf54d5211520583b0133d55ac39b6fda8324b/flamby/datasets/fed_tcga_brca"


def load_region(name: str) -> tuple[ExampleArrays, ExampleArrays]:
    """One region's records for training and those held out."""
    folds = {row["pid"]: row["fold2"] for row in _rows(_FOLDS)}
    everyone = list(_rows(_PATIENTS))
    number = REGIONS.index(name)
    train, held_out = (
        encode_tumours([row for row in everyone if folds.get(row["pid"]) == f"{part}_{number}"])
        for part in ("train", "test")
    )
    return train, held_out


def encode_tumours(rows: list[dict[str, str]]) -> ExampleArrays:
    """39 features for each patient, of that patient's row alone, and whether a death was observed."""
    try:
        values = np.array(
            [[float(value) for key, value in row.items() if key not in ("pid", "E", "T")] for row in rows]
        )
        labels = np.array([int(float(row["E"])) for row in rows], dtype=np.int64)
    except (KeyError, ValueError) as error:
        raise FedveilError(f"not a row of the brca data ({error})") from None
    return ExampleArrays(scaled_columns(values, (AGE, *[PublicScale(0, 1)] * (_FEATURES - 1))), labels)


def _rows(source: SourceFile) -> csv.DictReader[str]:
    file = sources.read_source("brca", source)
    return csv.DictReader(io.StringIO(file.content.decode("utf-8")))


def _load() -> SplitArrays:
    return join_sites({name: load_region(name) for name in REGIONS})


BRCA = NamedSet(
    name="brca",
    description="clinical records of breast cancer from six regions: was a death observed?",
    class_names=_CLASSES,
    input_shape=(_FEATURES,),
    files=(_PATIENTS, _FOLDS),
    origins=(
        files_at(
            {
                "brca.csv": f"{_FLAMBY}/brca.csv",
                "train_test_split.csv": f"{_FLAMBY}/dataset_creation_scripts/train_test_split.csv",
            }
        ),
    ),
    load=_load,
    task={
        "data": {"clients": len(REGIONS), "records": "none", "partition": {"kind": "sites"}},
        "model": {"name": "mlp", "options": {"hidden": []}},
        "cohort": {"kind": "everyone"},
        "batch": {"kind": "partition", "size": 8},
        "local": {"steps": 50, "rate": 0.05},
        "stop": {"rounds": 10},
    },
    costs=RoughCosts(gradient_microseconds=4.0, evaluation_seconds=0.01),
    features=Openness.PUBLIC,
    validation_records=Openness.PUBLIC,
    encoding=text_digest(str(AGE)),
    schema=BRCA_SCHEMA,
)

"""Time to death after breast cancer in six regions, learned as a classification, at ε = 4 for one patient.

Time is cut into intervals. A row is a patient in an interval at whose beginning the patient was alive and watched; what
is predicted is a death within it. Each patient has one row at most, so what protects a row protects a patient: the
interval is drawn by a rule that looks at this patient alone, and who was no longer at risk in it is left out. That
leaves about 500 rows with few deaths, so noise costs much of what can be learned.
"""

import csv
import hashlib
import sys
import tempfile
from pathlib import Path

import fedveil
from fedveil.data.known_sets import known_set
from fedveil.data.schema import CategoryColumn, FlagColumn, NumberColumn, Schema
from fedveil.data.sets.brca import REGIONS
from fedveil.data.sources import read_source

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
INTERVALS = {"0 to 2 years": (0, 730), "2 to 5 years": (730, 1826), "5 to 10 years": (1826, 3652)}

patients, folds = (
    {row["pid"]: row for row in csv.DictReader(read_source("brca", file).content.decode().splitlines())}
    for file in known_set("brca").files
)
findings = [name for name in next(iter(patients.values())) if name not in ("pid", "age_at_index", "E", "T")]
SCHEMA = Schema(
    columns=(
        NumberColumn(name="age_at_index", low=20, high=100, unit="years", outside="clip"),
        CategoryColumn(name="interval", categories=tuple(INTERVALS)),
        *(FlagColumn(name=name) for name in findings),
        FlagColumn(name="death"),
    ),
    target="death",
)


def row(patient: dict[str, str], interval: str) -> dict[str, str] | None:
    """A patient in an interval, if still at risk when it begins."""
    (begin, end), days = INTERVALS[interval], float(patient["T"])
    death = patient["E"] == "1.0" and days <= end
    return {**patient, "interval": interval, "death": "yes" if death else "no"} if days > begin else None


def drawn(patient: dict[str, str]) -> str:
    """One interval, by the name of the patient alone."""
    return list(INTERVALS)[hashlib.sha256(patient["pid"].encode()).digest()[0] % len(INTERVALS)]


def table(name: str, rows: list[dict[str, str] | None]) -> Path:
    """A CSV file of the rows that there are."""
    path = folder / f"{name}.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [column.name for column in SCHEMA.columns], extrasaction="ignore")
        writer.writeheader()
        writer.writerows([row for row in rows if row is not None])
    return path


def members(part: str) -> list[dict[str, str]]:
    return [patients[pid] for pid, fold in folds.items() if fold["fold2"] == part]


def concordance(risks: list[float], people: list[dict[str, str]]) -> float:
    """How often, of two patients, the one who is known to have died first was given the higher risk."""
    pairs = [
        (risks[first] > risks[second]) + (risks[first] == risks[second]) / 2
        for first, early in enumerate(people)
        for second, late in enumerate(people)
        if early["E"] == "1.0" and float(early["T"]) < float(late["T"])
    ]
    return sum(pairs) / len(pairs)


def measured(run: Path) -> float:
    """The concordance of ten years' risk, for patients that nobody trained on."""
    people = [patient for number in range(len(REGIONS)) for patient in members(f"test_{number}")]
    through = [1.0] * len(people)
    for interval in INTERVALS:
        everybody = [{**patient, "interval": interval, "death": ""} for patient in people]
        chances = fedveil.predict(run, table("everybody", everybody)).values[:, 1].tolist()
        through = [chance * (1 - death) for chance, death in zip(through, chances, strict=True)]
    return concordance([1 - chance for chance in through], people)


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    train, held_out = (
        {
            region: table(f"{part}_{region}", [row(one, drawn(one)) for one in members(f"{part}_{number}")])
            for number, region in enumerate(REGIONS)
        }
        for part in ("train", "test")
    )
    dataset = fedveil.from_sites(
        train, schema=SCHEMA, validation=held_out, validation_records="public", name="survival"
    )
    trainings = {"fedavg": {"local.rate": 0.1, "stop.rounds": ROUNDS}, "private-records": {"privacy.epsilon": 4.0}}
    for method, settings in trainings.items():
        result = fedveil.run(method, settings, dataset=dataset, seed=1)
        print(f"{method}: concordance {measured(result.run):.3f} (accuracy {result.accuracy:.3f} on single rows)")

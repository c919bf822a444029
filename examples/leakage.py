"""What one example's gradient gives away: the same attack on the same records, without protection and with Fed-CDP.

Draws with-and-without.png: the records, then what somebody on the device reconstructs from their gradients.
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

import fedveil

ITERATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 100

SETTINGS = {
    "data.name": "mnist",
    "data.clients": 100,
    "cohort.size": 10,
    "model.name": "leakage-cnn",  # the network of the papers' attacks
    "stop.rounds": 1,
}


def pictures(method: str, side: str) -> list[Image.Image]:
    """The records of six clients (`truth`) or what was reconstructed of them (`found`)."""
    directory = next((RUNS[method] / "attacks").iterdir())
    return [Image.open(path) for path in sorted(directory.glob(f"record-*-{side}.png"))]


# Fed-CDP draws its noise on a batch's sum unless it is told to noise every row that lies in memory.
METHODS = {"fedavg": {}, "fed-cdp": {"example.each_row": True}}

RUNS: dict[str, Path] = {}
for method, own in METHODS.items():
    result = fedveil.run(method, SETTINGS | own, seed=1)
    RUNS[method] = result.run
    found = fedveil.attack(result.run, view="on_device", victims=6, iterations=ITERATIONS).to_dict()
    print(f"{method}: accuracy {result.accuracy:.3f}, {found['success_rate']:.0%} of the records reconstructed")

rows = {
    "six clients' records": pictures("fedavg", "truth"),
    "reconstructed,\nno protection": pictures("fedavg", "found"),
    "reconstructed,\nFed-CDP": pictures("fed-cdp", "found"),
}
figure = Figure(figsize=(8, 3.7), dpi=120, layout="constrained")
grid = figure.subplots(len(rows), 6)
for axes, (name, shown) in zip(grid, rows.items(), strict=True):
    axes[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=11)
    for place, picture in zip(axes, shown, strict=True):
        place.imshow(picture, cmap="gray", vmin=0, vmax=255)
        place.set(xticks=[], yticks=[])
figure.savefig("with-and-without.png")
print("with-and-without.png")

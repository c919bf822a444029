"""`docs/results/speed.md` from what the benchmarks left in `benchmarks/results`: nothing on it is typed in.

Parts whose results are not there are left out. `python benchmarks/page.py` writes the page and prints it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs/results/speed.md"

PRIVATE, PLAIN = "fedveil fed-cdp", "fedveil non-private"
OPACUS, NAIVE = "opacus, one process per core", "torch loop non-private, one process per core"
COLUMNS = {
    "fed-cdp over opacus": "Fed-CDP over Opacus",
    "plain over a torch loop": "plain over a torch loop",
    "private over plain": "private over plain",
}
SHORT = (
    "\n\nThis is the short version: fewer clients, steps and turns. What a round costs once weighs more in it, so its"
    " ratios are below those of\nthe full one."
)


def page(results: Path = HERE / "results") -> str:
    """The text of the page."""
    parts = [
        _steps(_read(results, "steps")),
        _networks(_read(results, "networks")),
        _elsewhere(_read(results, "elsewhere/steps"), _read(results, "elsewhere/networks")),
        _simulators(_read(results, "simulators")),
        _scaling(_read(results, "steps")),
        _large_population(_read(results, "memory")),
        _startup(_read(results, "startup")),
        _rows(_read(results, "rows")),
        _attacks(_read(results, "attacks")),
    ]
    return (
        "\n\n".join(["# Speed", "For whoever asks how fast it is, and beside what.", *(part for part in parts if part)])
        + "\n"
    )


def _read(results: Path, name: str) -> dict[str, Any] | None:
    path = results / f"{name}.json"
    content: dict[str, Any] | None = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    return content


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.1f}"


def _range(spread: dict[str, float], digits: int) -> str:
    """Median, and from where to where."""
    shown = [f"{spread[name]:.{digits}f}" for name in ("median", "least", "most")]
    return f"{shown[0]} ({shown[1]} to {shown[2]})"


def _compared(workloads: dict[str, Any]) -> str:
    heads = ["", "Fed-CDP", "plain", "Opacus", "torch loop, plain", *COLUMNS.values()]
    rows = []
    for result in workloads.values():
        times, ratios = result["microseconds"], result["ratios"]
        rows.append(
            [
                result["title"],
                *(
                    _number(times[label]["median"]) if label in times else ""
                    for label in (PRIVATE, PLAIN, OPACUS, NAIVE)
                ),
                *(
                    _range(ratios[name], 2 if name == "private over plain" else 1) if name in ratios else ""
                    for name in COLUMNS
                ),
            ]
        )
    return _table(heads, rows)


def _steps(found: dict[str, Any] | None) -> str:
    if found is None:
        return "Steps have not been compared with Opacus since the kernels in C came: `make bench` does it."
    machine = found["about"]
    vectors = {16: "AVX-512", 8: "AVX2", 0: "no kernels in C"}[machine["vectors"]]
    return (
        f"`make bench` on {machine['cores']} cores ({machine['processor']}, {vectors}, torch {machine['torch']}): µs"
        f" per local step per client, medians of {found['turns']} turns.\n"
        "Everything that is compared takes turns; a ratio is taken in every turn,"
        " and its median and range are given. Opacus and the plain loop of\ntorch run in their best arrangement, one"
        " single-threaded process per core, one client after another. Times depend on the machine: the\nratios are what"
        " counts. Details are in `benchmarks/results`; `python benchmarks/page.py` makes this page of them.\n\n"
        + _compared(found["workloads"])
        + "\n\nDrawing the noise takes "
        + ", ".join(f"{result['noise_share']:.0%}" for result in found["workloads"].values())
        + " of a Fed-CDP step."
        + (SHORT if found.get("quick") else "")
    )


def _elsewhere(steps: dict[str, Any] | None, networks: dict[str, Any] | None) -> str:
    """Ratios depend on the processor, so an older run on another one stays on the page."""
    if steps is None or networks is None:
        return ""
    return (
        "## The same on another processor\n\n"
        "Ratios depend on the make: libraries that multiply matrices, for peers and in large layers, favour some.\n"
        "This is an earlier state on another processor with AVX-512"
        f" ({steps['about']['peak_gflops']:.0f} GFLOP/s of matrix products on {steps['about']['cores']} cores).\n\n"
        f"{_compared(steps['workloads'])}\n\n{_network_table(networks)}"
    )


def _networks(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    steps = " and ".join(sorted({str(result["steps"]) for result in found["networks"].values()}))
    text = (
        f"Networks of the kinds people bring (`python benchmarks/networks.py`): {found['about']['unit']}, in turns.\n"
        f"Rounds of {steps} steps; every client begins with a copy of the model, which is counted for all alike."
    )
    return f"## Networks of one's own\n\n{text}\n\n{_network_table(found)}"


def _network_table(found: dict[str, Any]) -> str:
    heads = ["", "Fed-CDP", "plain", "Opacus", "torch loop, plain", *COLUMNS.values()]
    labels = ("fedveil fed-cdp", "fedveil non-private", "opacus", "naive torch loop non-private")
    rows = [
        [
            result["title"],
            *(_number(result["microseconds"][label]) for label in labels),
            *(
                _range(result[key], 2 if key == "private_over_plain" else 1)
                for key in ("opacus_over_fed_cdp", "naive_over_plain", "private_over_plain")
            ),
        ]
        for result in found["networks"].values()
    ]
    return _table(heads, rows)


def _simulators(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    rows = [
        [name, _range(result["microseconds"], 0), _range(result["ratio"], 1)]
        if "microseconds" in result
        else [name, result["skipped"], ""]
        for name, result in found["peers"].items()
    ]
    ours = _range(found["fedveil"], 0)
    return (
        "## Simulators\n\n"
        "The plain task of the first row, without privacy, in simulators of federated learning, each in"
        f" its own environment:\nµs per local step per client on all cores, {found['turns']} turns."
        f" fedveil takes {ours}.\n\n" + _table(["", "µs", "times as slow as fedveil"], rows)
    )


def _scaling(found: dict[str, Any] | None) -> str:
    if found is None or "scaling" not in found:
        return ""
    scaling, memory = found["scaling"], found["memory"]
    by_cohort = ", ".join(_number(value) for value in scaling["microseconds_by_cohort"].values())
    return (
        "## Cores, cohorts, memory\n\n"
        f"All {scaling['cores']} cores are {scaling['speed_up']} times as fast as one. Time per"
        f" client with {', '.join(scaling['microseconds_by_cohort'])} clients a round: {by_cohort} µs.\nA round of"
        f" {memory['cohort']:,} of {memory['clients']:,} clients peaks at"
        f" {memory['peak_megabytes'] / 1000:.1f} GB over all processes."
    )


def _large_population(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    peak = found["peak"]["here"]
    return (
        "## Many clients\n\n"
        f"A whole run of one round with {found['cohort']:,} of {found['clients']:,} clients peaks at"
        f" {peak['proportional_megabytes'] / 1000:.1f} GB over all processes, shared\nmemory counted once"
        f" (`python benchmarks/memory.py`)."
    )


def _startup(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    rows = [
        [f"`fedveil {name}`", *(_range(times["here"][kind], 2) for kind in ("processor", "wall"))]
        for name, times in found["seconds"].items()
    ]
    return (
        "## From the shell\n\n"
        f"Seconds that commands take (`python benchmarks/startup.py`), medians of {found['repeats']} and their range,"
        f" at a load of {found['load']}.\n\n" + _table(["", "of a core", "on the clock"], rows)
    )


def _rows(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    rows = [
        [
            result["title"],
            *(_number(result["microseconds"][name]) for name in ("sum", "each row")),
            _range({"median": result["ratio"], "least": min(result["ratios"]), "most": max(result["ratios"])}, 1),
        ]
        for result in found["workloads"].values()
    ]
    return (
        "## Noise on each row\n\n"
        "What `example.each_row` costs: a Fed-CDP step in which every row is formed and gets its"
        " own noise, against the usual one, whose noise is\ndrawn on the sum."
        " `python benchmarks/rows.py`: the processor's"
        " time on one core, µs per local step per client. A batch's rows must fit into\nmemory at once: B times the"
        " network's size for a client, several times over.\n\n"
        + _table(["", "noise on the sum", "on each row", "times as slow"], rows)
    )


def _attacks(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    names = {
        "equal_updates": "equal updates",
        "until_matched": "each until its gradient is matched; the peer as published, without line search",
    }
    rows = []
    for key, title in names.items():
        times = found[key]["milliseconds_per_victim"]
        rows.append(
            [
                title,
                _number(times["one after another"]),
                _number(times["together, all cores"]),
                f"{found[key]['ratio_all_cores']:.1f}",
                _number(times["together, one core"]),
                f"{found[key]['ratio_one_core']:.1f}",
            ]
        )
    heads = [
        "",
        "ms per victim, one after another",
        f"all at once, {found['cores']} cores",
        "ratio",
        "one core",
        "ratio",
    ]
    return (
        "## Attacks\n\n"
        f"{found['victims']} MNIST victims, one example's gradient each, {found['updates']} updates of L-BFGS"
        " with the same history and line search: all at\nonce against one `torch.optim.LBFGS` after another"
        f" ({found['attacked_one_after_another']} of the victims), interleaved (`python benchmarks/attacks.py`).\n\n"
        + _table(heads, rows)
    )


if __name__ == "__main__":
    text = page()
    PAGE.write_text(text, encoding="utf-8")
    print(text)
    print(f"written to {PAGE}")

"""CPU time of a coordinator for one site in one round: a question signed, an answer checked, read and added up.

`python benchmarks/answers.py` prints it and writes benchmarks/results/answers.json: without a network, so it is what is
left when the network costs nothing. docs/federation-scale.md reckons with it.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

import torch

from fedveil.core.signing import SigningKey
from fedveil.runtimes.messages import Speaker, read_message, tensor_bytes, write_message

PARAMETERS = {"tiny": 1_000, "4 MB": 1_000_000}
REPEATS = 7
OUT = Path(__file__).parent / "results" / "answers.json"


def measured(parameters: int, times: int) -> dict[str, float | int]:
    """Milliseconds of CPU for one site, and bytes both ways. Answers are 8-byte integers, which add up exactly."""
    site, coordinator, plan = SigningKey.generate(), SigningKey.generate(), bytes(32)
    cells = tensor_bytes({"cells": torch.randint(-(2**40), 2**40, (parameters,))})
    model = tensor_bytes({"parameters": torch.zeros(parameters)})
    answer = write_message(site, Speaker.SITE, plan, {"kind": "update", "round": 1}, cells)
    total = torch.zeros(parameters, dtype=torch.int64)
    question, spent = b"", []
    for _ in range(REPEATS):
        begun = time.process_time()
        for _ in range(times):
            question = write_message(coordinator, Speaker.COORDINATOR, plan, {"kind": "train", "round": 1}, model)
            total += read_message(answer, Speaker.SITE, plan, site.public.raw).tensors["cells"]
        spent.append((time.process_time() - begun) / times * 1000)
    return {
        "milliseconds": round(statistics.median(spent), 3),
        "least": round(min(spent), 3),
        "most": round(max(spent), 3),
        "question": len(question),
        "answer": len(answer),
    }


def main() -> None:
    torch.set_num_threads(1)
    report = {
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()},
        "load": round(os.getloadavg()[0], 1),
        **{title: measured(size, max(20, 300_000 // size)) for title, size in PARAMETERS.items()},
    }
    text = json.dumps(report, indent=2)
    print(text)
    OUT.write_text(text + "\n")


if __name__ == "__main__":
    sys.exit(main())

"""Planted bugs of rows that carry their own noise: shared, missing, halved."""

from __future__ import annotations

from mutant import Mutant, Patch
from source_lines import BOTH, CLIENT, GAUSSIAN, SANITISER, STEP_ADDRESS

_ROWS_NOISED = "source.add(Purpose.ROW_NOISE, addresses, noisy, self.row_std)"
_VIEWED = "noisy = noisy.view(count, batch, size)\n"
_SHARED = (
    "one = noisy.new_zeros(count, size)\n"
    "        source.add(Purpose.ROW_NOISE, addresses, one, self.row_std)\n"
    "        noisy = noisy + one.repeat(1, batch)"
)

_RIGHT_AND_SHARED = (
    f"{_ROWS_NOISED}\n"
    "        right = noisy.view(count, batch, size)\n"
    "        noisy = rows.double().view(count, batch * size)\n"
    f"        {_SHARED}"
)

ROW_BUGS = [
    Mutant(
        name="shared row noise",
        bug="all rows of a batch have the same noise",
        patches=(Patch(GAUSSIAN, _ROWS_NOISED, _SHARED),),
        scene="each row",
        caught_by=BOTH,
    ),
    Mutant(
        name="shared row noise, right sum",
        bug="all rows of a batch have the same noise, and their sum has the noise that it should",
        patches=(
            Patch(GAUSSIAN, _ROWS_NOISED, _RIGHT_AND_SHARED),
            Patch(GAUSSIAN, "return whole_cells(noisy, self.row_std)", "return whole_cells(right, self.row_std)"),
        ),
        scene="each row",
        caught_by=BOTH,
    ),
    Mutant(
        name="row noise shared by pairs",
        bug="two rows have the same noise with opposite signs",
        patches=(
            Patch(
                GAUSSIAN,
                _VIEWED,
                f"{_VIEWED}        noisy[:, 1] = rows[:, 1] + rows[:, 0] - noisy[:, 0]\n",
            ),
        ),
        scene="each row",
        caught_by=BOTH,
    ),
    Mutant(
        name="rows stay clean",
        bug="rows in memory stay clean, and their sum has the noise of all",
        patches=(Patch(GAUSSIAN, "        rows.copy_(noisy)\n", ""),),
        scene="each row",
        caught_by=BOTH,
    ),
    Mutant(
        name="rows not noised",
        bug="the noise is drawn on the sum although every row should have its own",
        patches=(Patch(SANITISER, "return self._mechanism.each_row", "return False"),),
        scene="each row",
        caught_by=BOTH,
    ),
    Mutant(
        name="half row noise",
        bug="rows get half of their noise",
        patches=(Patch(GAUSSIAN, _ROWS_NOISED, _ROWS_NOISED.replace("self.row_std", "self.row_std / 2")),),
        scene="each row",
        caught_by=BOTH,
    ),
    Mutant(
        name="row noise reused across steps",
        bug="rows have the same noise in all local steps",
        patches=(Patch(CLIENT, STEP_ADDRESS, STEP_ADDRESS.replace("step", "0")),),
        scene="each row",
        caught_by=BOTH,
    ),
]

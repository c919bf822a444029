"""Reading is told of once in a while."""

from __future__ import annotations

from fedveil.report.terminal.reading_progress import reading_notes
from fedveil.report.terminal.run_progress import SilentReporter


class Notes(SilentReporter):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


def test_a_large_table_is_told_of_and_a_small_one_is_not() -> None:
    patient, hasty = Notes(), Notes()
    for rows in (10_000, 20_000):
        reading_notes(patient, 60.0)("site 'north'", rows)
        reading_notes(hasty, 0.0)("site 'north'", rows)
    assert patient.lines == []
    assert hasty.lines == ["reading site 'north': 10,000 rows", "reading site 'north': 20,000 rows"]

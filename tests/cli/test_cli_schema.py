"""`fedveil schema`: from a file to a draft, and from an edited draft to a checked table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TABLE = "age,pain,sick,ward,note\n30,mild,no,a,x\n90,,yes,b,y\n55,strong,yes,a,z\n"


def test_a_draft_is_written_for_its_owner_alone_and_never_over_another_file(call: Any) -> None:
    Path("t.csv").write_text(TABLE)
    code, out, _ = call("schema", "draft", "t.csv", "--target", "sick", "--site", "ward")
    assert code == 0
    assert "schema.toml: replace every range and every list" in out
    assert Path("schema.toml").stat().st_mode & 0o077 == 0
    code, _, err = call("schema", "draft", "t.csv", "--target", "sick")
    assert code == 2
    assert "--out: schema.toml already exists" in err


def test_a_check_says_what_the_schema_makes_of_the_table(call: Any) -> None:
    Path("t.csv").write_text(TABLE)
    call("schema", "draft", "t.csv", "--target", "sick", "--site", "ward")
    text = Path("schema.toml").read_text()
    Path("schema.toml").write_text(text.replace("low = 30", "low = 40").partition("[columns.note]")[0])
    code, out, _ = call("schema", "check", "schema.toml", "t.csv")
    assert code == 0
    assert "4 features predict sick (2 classes: no, yes)" in out
    assert "private until you replace what was read off the data: age, pain, sick" in out
    assert "t.csv: 3 rows follow it" in out
    assert "sites: a 2, b 1" in out
    assert "age: outside the schema 1" in out
    assert "pain: missing 1" in out
    assert "not in the schema, so ignored: note" in out
    code, out, _ = call("schema", "check", "schema.toml", "t.csv", "--json")
    facts = json.loads(out)
    assert facts["schema"]["openness"] == "private"
    assert facts["tables"]["t.csv"]["sites"] == {"a": 2, "b": 1}


def test_errors_name_the_option_or_file_line_and_column(call: Any) -> None:
    Path("t.csv").write_text(TABLE)
    code, _, err = call("schema", "draft", "t.csv", "--target", "death")
    assert code == 2
    assert "--target: t.csv has no column 'death'" in err
    assert not Path("schema.toml").exists()
    call("schema", "draft", "t.csv", "--target", "sick")
    Path("new.csv").write_text(TABLE.replace("55", "old"))
    code, _, err = call("schema", "check", "schema.toml", "new.csv")
    assert code == 2
    assert err == "fedveil: new.csv, line 4, column 'age': 'old' is not a finite number\n"

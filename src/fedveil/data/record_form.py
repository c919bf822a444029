"""How all sites of a federation encode their records: tables by a schema, pictures by their form. One file says it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import tomli_w

from fedveil.core.atomic import disk_errors
from fedveil.core.checks import FieldError
from fedveil.core.digests import text_digest
from fedveil.core.errors import FedveilError
from fedveil.data.encoded_table import read_table
from fedveil.data.examples import Examples, check_examples
from fedveil.data.picture_form import PictureForm, read_picture_form
from fedveil.data.schema import Schema
from fedveil.data.schema_file import parse_schema, schema_toml
from fedveil.data.site_tables import table_examples

RecordForm = Schema | PictureForm


def read_form(path: str | Path) -> RecordForm:
    """The form in a TOML file."""
    with disk_errors(Path(path)):
        content = Path(path).read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FedveilError(f"{path}: not a TOML file ({error})") from None
    return parse_form(text, str(path))


def parse_form(text: str, where: str) -> RecordForm:
    """The form that a text says; `where` stands before the key in messages."""
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise FedveilError(f"{where}: not a TOML file ({error})") from None
    if "pictures" not in table:
        return parse_schema(text, where)
    try:
        others = [key for key in table if key != "pictures"]
        if others:
            raise FieldError(others[0], "is not said of pictures")
        return read_picture_form(table["pictures"])
    except FieldError as error:
        raise FedveilError(f"{where}: {error.field}: {error.problem}") from None


def form_toml(form: RecordForm) -> str:
    """The file of a form: the same form gives the same text."""
    return tomli_w.dumps(form.table()) if isinstance(form, PictureForm) else schema_toml(form)


def form_digest(form: RecordForm) -> str:
    """A hash by which encodings can be compared."""
    return text_digest(form_toml(form))


def shape_of(form: RecordForm) -> tuple[int, ...]:
    """Of one record as a network takes it."""
    return form.input_shape if isinstance(form, PictureForm) else (len(form.features),)


def private_columns(form: RecordForm) -> tuple[str, ...]:
    """Of which columns something was read off records."""
    return () if isinstance(form, PictureForm) else tuple(form.private_columns)


def form_words(form: RecordForm) -> str:
    """What is predicted from what, for a sentence."""
    if isinstance(form, PictureForm):
        kind = "grey" if form.grey else "colour"
        return f"{' or '.join(form.classes)} from {kind} pictures of {form.height} × {form.width}"
    return f"{form.target} from {', '.join(column.name for column in form.input_columns)}"


def read_records(path: Path, form: RecordForm) -> Examples:
    """One site's records, encoded."""
    if isinstance(form, PictureForm):
        return form.read(path)
    table = read_table(path, form, sited=False)
    if not len(table):
        raise FedveilError(f"{path}: the schema leaves no row of it")
    examples = table_examples(table)
    check_examples(str(path), examples, form.task)
    return examples

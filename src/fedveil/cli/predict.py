"""`predict`: what a run's model says of new rows."""

from __future__ import annotations

from pathlib import Path

import click

from fedveil.cli.options import json_option, print_json
from fedveil.cli.row_progress import row_progress


@click.command("predict")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path),
    help="A CSV or Parquet file, without a target; for other models a folder of pictures, or records in a .npy file.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("predictions.csv"), show_default=True, help="The CSV file."
)
@click.option("--trust-code", is_flag=True, help="Import the code that the run names for its network.")
@json_option
def predict_command(run: Path, data: Path, out: Path, trust_code: bool, as_json: bool) -> None:
    """Predict for new records by the model of a finished RUN: classes with probabilities, or numbers."""
    from fedveil.studies.predict import predict, predictions_record

    with row_progress(data) as progress:
        facts = predictions_record(predict(run, data, out=out, trust_code=trust_code, progress=progress))
    if as_json:
        print_json(facts)
        return
    counted = "".join(f"; {name}: {rows:,}" for name, rows in facts.get("classes", {}).items())
    left_out = f"; left out by the schema: {facts['left_out']:,}" if facts["left_out"] else ""
    click.echo(f"{facts['target']} of {facts['rows']:,} records{counted}{left_out}")
    click.echo(f"predictions: {facts['out']}")

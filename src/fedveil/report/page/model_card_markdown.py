"""A model card as a page for people. All that comes from a file is put where it can't be taken for markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedveil.core.guarantee import Guarantee
from fedveil.report.terminal.guarantee_lines import table_lines

_MARKUP = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_{}[]<>|#"})


def model_card_markdown(card: Mapping[str, Any], cells: Sequence[Guarantee]) -> str:
    """The card in Markdown."""
    model, trained = card["model"], card["trained"]
    about = f" ({_plain(trained['about'])})" if trained["about"] else ""
    lines = [
        "# Model card",
        "",
        f"A network `{_code(model['name'])}` of {model['parameters']:,} parameters, trained with"
        f" `{trained['method']}` on {_plain(trained['data'])}{about} in"
        f" {trained['rounds']} rounds, by fedveil {card['fedveil']}.",
        "",
        "## What it says",
        "",
        _task_sentence(card["task"]),
        "",
        "## What it takes",
        "",
        *_inputs(card),
        "",
        "## Load it",
        "",
        "```python",
        *model["load"],
        "```",
        "",
        f"The file `{model['file']}` has the SHA-256 `{model['sha256']}`.",
        "",
        "## What is guaranteed",
        "",
        "One record or one client, against whom, as the accountant certifies it. ε = ∞ means that nothing is promised.",
        "",
        "```text",
        *table_lines("promised", cells),
        "```",
        "",
    ]
    return "\n".join(lines)


def _task_sentence(task: Mapping[str, Any]) -> str:
    target = f" of `{_code(task['target'])}`" if "target" in task else ""
    if task["kind"] == "regression":
        unit = f" {_plain(task['unit'])}" if task["unit"] else ""
        if "low" not in task:
            return (
                f"A number{target} on [−1, 1]; its range was read off private records and stands in schema.toml only."
            )
        low, high = task["low"], task["high"]
        return (
            f"A number{target} from {low:g} to {high:g}{unit}: its one output y stands for"
            f" {low:g} + (y + 1)·{(high - low) / 2:g}{unit}."
        )
    if task["classes"] is None:
        return f"A class{target}; which there are was read off private records and stands in schema.toml only."
    classes = ", ".join(_plain(name) for name in task["classes"])
    return f"A class{target}. The softmax of its outputs are the probabilities of, in this order: {classes}."


def _inputs(card: Mapping[str, Any]) -> list[str]:
    shape, schema = card["model"]["input_shape"], card["schema"]
    if schema is None:
        kind = "whole numbers (tokens)" if card["model"]["tokens"] else "numbers; pictures are bytes divided by 255"
        return [f"Records of shape {shape}: {kind}."]
    lines = [
        f"{shape[0]} numbers for each row of a table, made by its schema alone. `fedveil predict` and"
        " `fedveil.data.encoded_table.read_table` make them.",
        "",
        "| column | what stands there | features | how they are made |",
        "| --- | --- | --- | --- |",
    ]
    for column in schema["columns"]:
        features = column["features"]
        number = features if isinstance(features, int) else len(features)
        cells = (column["name"], column["meaning"], number, column["encoding"])
        lines.append(f"| {' | '.join(_plain(cell) for cell in cells)} |")
    if "digest" in schema:
        lines += ["", f"The schema has the digest `{schema['digest']}`."]
    else:
        lines += ["", "Part of the schema was read off private records: keep schema.toml to yourself."]
    return lines


def _plain(text: object) -> str:
    return " ".join(str(text).split()).translate(_MARKUP)


def _code(text: object) -> str:
    return " ".join(str(text).split()).replace("`", "'")

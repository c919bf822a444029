"""`attack`: what an adversary gets out of a view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from fedveil.cli.options import (
    choice,
    json_option,
    keep_option,
    parse_settings,
    picture_option,
    print_json,
    settings_option,
    workers_option,
)
from fedveil.core.types import CLIENTS_WORK


@click.command("attack")
@click.argument("source", metavar="[PRESET|SPEC.toml|RUN]", default="fed-cdp")
@click.option(
    "--view",
    type=choice(CLIENTS_WORK),
    default="on_device",
    show_default=True,
    help="What the adversary sees: each example's gradient, or the update before or after it is sent.",
)
@settings_option
@click.option(
    "--attack",
    "name",
    default="strongest",
    show_default=True,
    help="Or: cpl, dlg, idlg, inverting-gradients, balanced, smooth, informed.",
)
@click.option(
    "--with", "changes", multiple=True, metavar="KEY=VALUE", help="Change a part of the attack: seed=uniform."
)
@click.option("--victims", type=int, default=40, show_default=True, help="How many clients are attacked.")
@click.option("--iterations", type=int, default=300, show_default=True, help="At most so many, of 20 updates each.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Of the victims, the noise and the attack's seeds."
)
@click.option("--seeds", type=int, default=1, show_default=True, help="Repeat the attack with so many different seeds.")
@click.option("--looks", type=int, default=1, show_default=True, help="See the same records so often, and average.")
@click.option("--threshold", type=float, default=0.1, show_default=True, help="RMSE below which an attack succeeds.")
@picture_option("Draw the first victims' reconstructions into this PNG file.")
@workers_option
@keep_option
@json_option
def attack_command(
    source: str,
    view: str,
    settings: tuple[str, ...],
    name: str,
    changes: tuple[str, ...],
    victims: int,
    iterations: int,
    seed: int,
    seeds: int,
    looks: int,
    threshold: float,
    out: Path | None,
    workers: int | None,
    keep: bool,
    as_json: bool,
) -> None:
    """Steal what a view shows of clients' training, and reconstruct their records from it."""
    from fedveil.report.terminal.work_progress import WorkProgress
    from fedveil.studies.attack import attack

    with WorkProgress(Console(stderr=True)) as progress:
        try:
            result = attack(
                source,
                parse_settings(settings),
                view=view,
                attack=name,
                changes=parse_settings(changes),
                victims=victims,
                iterations=iterations,
                seed=seed,
                seeds=seeds,
                looks=looks,
                threshold=threshold,
                out=out,
                workers=workers,
                keep=keep,
                note=progress.note,
                progress=progress,
                go_on=True,
            ).to_dict()
        except KeyboardInterrupt:
            progress.note("stopped; victims that were finished are kept, and the same command goes on with the others")
            raise
    if as_json:
        print_json(result)
    else:
        click.echo("\n".join(_lines(result)))


def _lines(result: dict[str, Any]) -> list[str]:
    from fedveil.report.terminal.wrapped_lines import paragraphs

    facts = result["facts"]
    lines = [
        f"{result['method']} on {result['data']}, {result['view']} view: {result['victims']} victims,"
        f" {facts['records_per_victim']} records each, network {result['model']}",
        f"strongest attack {result['attack']} (of {', '.join(result['tried'])})",
        f"success         {result['success_rate']:.0%} (RMSE below {result['threshold']:g})",
        f"RMSE            {_number(result, 'rmse')} (a constant guess: {result['blind_rmse']:.4f})",
        f"PSNR            {_number(result, 'psnr')} dB",
    ]
    lines += [f"SSIM            {_number(result, 'ssim')}"] if result["ssim"] is not None else []
    lines += [
        f"labels right    {result['label_accuracy']:.0%}",
        f"iterations      {result['iterations']:.1f} (to success, or until it stopped; 20 updates each)",
        f"seconds         {result['seconds']:.1f}",
    ]
    lines += [f"picture: {result['picture']}"] if "picture" in result else []
    return [*paragraphs(lines), "more: --victims N, --iterations N, --seeds N; see one: --out picture.png"]


def _number(result: dict[str, Any], name: str) -> str:
    return f"{result[name]:.4f} ± {result[f'{name}_std']:.4f}"

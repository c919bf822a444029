"""`explain`: what a spec will do, and why a front door chose so."""

from __future__ import annotations

import click

from fedveil.cli.options import json_option, parse_settings, print_json, settings_option


@click.command("explain")
@click.argument("source", metavar="[PRESET|SPEC.toml]", default="private-records")
@settings_option
@json_option
def explain_command(source: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Say what a method or a spec will do, what was chosen for it, and why. Nothing is trained."""
    from fedveil.report.terminal.wrapped_lines import paragraphs
    from fedveil.runs.explain import explain

    spec, lines = explain(source, parse_settings(settings))
    if as_json:
        chosen = [{"key": one.key, "value": one.value, "reason": one.reason} for one in spec.choices]
        print_json({"spec": spec.to_dict(), "choices": chosen})
        return
    click.echo("\n".join(paragraphs(lines)))

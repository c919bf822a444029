"""`doctor` and `completion`: what is installed here, and the shell that knows the commands."""

from __future__ import annotations

import click

from fedveil.cli.options import json_option, print_json

COMPLETION_LINES = {
    "bash": 'add to ~/.bashrc: eval "$(fedveil completion bash)"',
    "zsh": 'add to ~/.zshrc: eval "$(fedveil completion zsh)"',
    "fish": "add to ~/.config/fish/config.fish: fedveil completion fish | source",
}


@click.command("doctor")
@json_option
def doctor_command(as_json: bool) -> None:
    """Say what is installed here, what is missing, what that disables, and the command that mends it."""
    from fedveil.report.terminal.wrapped_lines import wrapped
    from fedveil.studies.doctor import findings_here

    findings = findings_here()
    if as_json:
        print_json({"findings": [finding.to_dict() for finding in findings]})
        return
    for finding in findings:
        mark = "ok" if finding.well else "--"
        click.echo("\n".join(wrapped(finding.found, f"{mark}  {finding.name:18}  ", " " * 24)))
        if not finding.well:
            click.echo("\n".join(wrapped(f"without it: {finding.disables}", " " * 24, " " * 26)))
            click.echo(f"{' ' * 24}to mend it: {finding.mend}")
    missing = sum(not finding.well for finding in findings)
    click.echo(f"{len(findings) - missing} of {len(findings)} are there; what is missing disables only what it says")


@click.command("completion")
@click.argument("shell", type=click.Choice(list(COMPLETION_LINES)))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options; evaluate it where your shell starts."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "fedveil", "_FEDVEIL_COMPLETE").source())
    click.echo(f"# {COMPLETION_LINES[shell]}")

"""The command line: parse, call, print. Nothing is decided here."""

from __future__ import annotations

from fedveil.cli.interrupts import defer_while_importing

defer_while_importing()  # before anything large is imported

# ruff: noqa: E402
import os
import sys
import textwrap

import click

from fedveil.cli.attack import attack_command
from fedveil.cli.audit import audit_command
from fedveil.cli.certify import certify_command, countersign_command, key_command, verify_command
from fedveil.cli.compare import compare_command
from fedveil.cli.data import data_group
from fedveil.cli.demo import demo_command
from fedveil.cli.doctor import completion_command, doctor_command
from fedveil.cli.explain import explain_command
from fedveil.cli.federation import federation_group
from fedveil.cli.predict import predict_command
from fedveil.cli.privacy import account_command, calibrate_command
from fedveil.cli.report import report_command
from fedveil.cli.reproduce import reproduce_command
from fedveil.cli.runs import methods_command, resume_command, run_command
from fedveil.cli.schema import schema_group
from fedveil.cli.show import show_command
from fedveil.cli.site import site_group
from fedveil.cli.status import status_command
from fedveil.cli.sweep import sweep_command
from fedveil.cli.watching import watched_work
from fedveil.core.errors import ArgumentError, FedveilError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fedveil", prog_name="fedveil")
@click.pass_context
def cli(context: click.Context) -> None:
    """Differentially private federated learning: train, prove, attack."""
    context.with_resource(watched_work())


for command in (
    demo_command,
    run_command,
    resume_command,
    compare_command,
    sweep_command,
    reproduce_command,
    show_command,
    explain_command,
    predict_command,
    account_command,
    calibrate_command,
    attack_command,
    audit_command,
    report_command,
    key_command,
    certify_command,
    countersign_command,
    verify_command,
    methods_command,
    doctor_command,
    completion_command,
    data_group,
    schema_group,
    site_group,
    federation_group,
    status_command,
):
    cli.add_command(command)


def main() -> None:
    """Entry point: errors are one line, Ctrl-C is 130."""
    try:
        sys.exit(cli(standalone_mode=False) or 0)
    except ArgumentError as error:
        _fail(f"{_option_of(error.argument)}: {error.problem}")
    except FedveilError as error:
        _fail(str(error))
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
    except click.ClickException as error:
        _fail(error.format_message())
    except (KeyboardInterrupt, click.Abort):
        click.echo("fedveil: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.filename or 'disk'}: {error.strerror or error}")
    except MemoryError as error:
        _fail(f"there is not enough memory for this ({error})")


def _option_of(argument: str, commands: click.Group = cli) -> str:
    """The option that a person gave for an argument of the library; the argument's name where there is none."""
    for command in commands.commands.values():
        parts = [_option_of(argument, command)] if isinstance(command, click.Group) else []
        parts += [option for parameter in command.params for option in parameter.opts]
        if (option := f"--{argument.replace('_', '-')}") in parts:
            return option
    return argument


def _fail(message: str) -> None:
    """One line; on a terminal it is broken between words."""
    line = f"fedveil: {' '.join(message.split())}"
    if sys.stderr.isatty():
        line = "\n".join(
            textwrap.wrap(line, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        )
    click.echo(line, err=True)
    sys.exit(2)

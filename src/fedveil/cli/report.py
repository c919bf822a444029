"""`report`: one page about runs, about a federation, or about a site."""

from __future__ import annotations

from pathlib import Path

import click

from fedveil.cli.options import json_option, print_json
from fedveil.cli.roles import Role, role_of


@click.command("report")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default="report.html", show_default=True, help="The page.")
@click.option("--without-pictures", is_flag=True, help="Leave out reconstructions, which show training records.")
@click.option(
    "--for-release", is_flag=True, help="Leave out whatever no guarantee covers, and who took part: a page to publish."
)
@json_option
def report_command(runs: tuple[Path, ...], out: Path, without_pictures: bool, for_release: bool, as_json: bool) -> None:
    """Write one HTML page about runs, finished or not: what was trained, what is guaranteed, what attacks got.

    RUN is also the directory of a coordinator; or, alone, that of a site, for what it paid and sent over its lifetime.
    """
    from fedveil.federation.coordinator_home import CoordinatorHome
    from fedveil.federation.federation_report import federation_facts
    from fedveil.studies.report import report

    roles = [role_of(path) for path in runs]
    if Role.SITE in roles:
        _report_site(runs, out, alone=not (without_pictures or for_release), as_json=as_json)
        return
    homes = [CoordinatorHome(path) for path, role in zip(runs, roles, strict=True) if role is Role.COORDINATOR]
    named = [CoordinatorHome(path).run.directory if CoordinatorHome(path) in homes else path for path in runs]
    facts = {home.run.directory: federation_facts(home) for home in homes}
    written = report(named, out, pictures=not without_pictures, release=for_release, federations=facts)
    if as_json:
        print_json(written.to_dict())
        return
    for run in written.runs:
        state = "" if run.status.state == "finished" else " (unfinished)"
        click.echo(f"{run.name}: {run.status.published} of {run.status.planned} rounds{state}")
        for problem in run.problems:
            click.echo(f"  {problem}")
    click.echo(f"report: {written.path}")


def _report_site(directories: tuple[Path, ...], out: Path, *, alone: bool, as_json: bool) -> None:
    from fedveil.report.model.number_texts import epsilon_text
    from fedveil.site.site_report import site_report

    if len(directories) > 1:
        raise click.UsageError("a site's page speaks of that site alone; name one directory")
    if not alone:
        raise click.UsageError("a site's page has no pictures and is not for release; leave these options out")
    written = site_report(directories[0], out)
    life = written.life
    if as_json:
        said = {"report": str(written.path), "receipts": str(written.receipts), "site": life.name}
        print_json({**said, "answers": life.sent, "plans": len(life.plans)})
        return
    click.echo(
        f"{life.name}: {life.sent} answers sent, plans agreed to: {len(life.plans)},"
        f" ε = {epsilon_text(life.lifetime.spent)} of {life.lifetime.allowed:g} for ever"
    )
    click.echo(f"receipts: {written.receipts}")
    click.echo(f"report: {written.path}")

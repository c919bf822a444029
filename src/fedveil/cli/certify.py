"""`key`, `certify`, `countersign`, `verify`: a signed statement of what a run guarantees, and its check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedveil.cli.options import json_option, out_option, print_json

if TYPE_CHECKING:
    from fedveil.certificate.stated_facts import PlanFacts
    from fedveil.certificate.verify import Verification
    from fedveil.core.signing import PublicKey
    from fedveil.federation.coordinator_home import CoordinatorHome

KEY_HELP = "Your private key, as `fedveil key` makes it."


@click.command("key")
@click.option("--out", type=click.Path(path_type=Path), default="fedveil-signing.key", show_default=True, help="File.")
@json_option
def key_command(out: Path, as_json: bool) -> None:
    """Make a pair of Ed25519 keys: OUT, which only you can read and which signs, and OUT.pub for everybody."""
    from fedveil.core.signing import make_key_files, public_path_of

    public = make_key_files(out)
    if as_json:
        made = {"private": str(out), "public": str(public_path_of(out)), "fingerprint": public.fingerprint}
        print_json(made)
        return
    click.echo(f"private key: {out} (only you can read it; keep a copy, it can't be replaced)")
    click.echo(f"public key: {public_path_of(out)} (give it to whoever checks what you sign)")
    click.echo(f"fingerprint: {public.fingerprint}")


def _site_keys(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, Path]:
    keys = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or not name or not path or name in keys:
            raise click.BadParameter(f"{text!r}: give each site once, as NAME=PUBLIC_KEY_FILE")
        keys[name] = Path(path)
    return keys


def _coordinator(run: Path) -> CoordinatorHome | None:
    """The coordinator's directory that this is, or whose run it is. (Loading a federation's code takes a second.)"""
    if not any((place / "plan.json").is_file() for place in (run, run.parent)):
        return None
    from fedveil.federation.certified_plan import coordinator_at

    return coordinator_at(run)


def _site_keys_of(home: CoordinatorHome) -> dict[str, PublicKey]:
    from fedveil.federation.certified_plan import keys_of_sites

    return keys_of_sites(home)


def _facts_of(home: CoordinatorHome) -> PlanFacts:
    from fedveil.config.plan_facts import facts_of_plan

    return facts_of_plan(home.plan)


@click.command("certify")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--key",
    "key_path",
    type=click.Path(path_type=Path),
    help=f"{KEY_HELP} A coordinator's directory has one of its own.",
)
@click.option("--signatory", required=True, help="Who answers for it: name and role.")
@click.option("--justification", default="", help="Why this ε, these units and these adversaries, in your words.")
@click.option("--days", type=int, default=365, show_default=True, help="How long it holds.")
@click.option(
    "--site",
    "sites",
    multiple=True,
    metavar="NAME=KEY.pub",
    callback=_site_keys,
    help="A named site that must countersign, with its public key; may be repeated.",
)
@click.option(
    "--for-release",
    is_flag=True,
    help="Refuse an unfinished, seeded or diverged run, and leave out what tells who took part.",
)
@click.option("--registry", type=click.Path(path_type=Path), help="Also write an entry for the deployment registry.")
@out_option("The certificate; default: RUN/certificate.json.")
@json_option
def certify_command(
    run: Path,
    key_path: Path | None,
    signatory: str,
    justification: str,
    days: int,
    sites: dict[str, Path],
    for_release: bool,
    registry: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Write a signed certificate: what RUN guarantees, of what, against whom, and what it rests on.

    RUN may be a coordinator's directory: then every site of its plan must countersign.
    """
    from fedveil.certificate.registry_entry import write_registry_entry
    from fedveil.core.signing import read_public_key, read_signing_key
    from fedveil.studies.certify import certify_run

    home = _coordinator(run)
    if home is not None and sites:
        raise click.UsageError("a federation's sites sign by the keys in its plan; leave --site out")
    if home is None and key_path is None:
        raise click.UsageError("Missing option '--key'.")
    written = certify_run(
        run if home is None else home.run.directory,
        read_signing_key(home.key_file if home is not None and key_path is None else Path(key_path or "")),
        signatory=signatory,
        out=out,
        justification=justification,
        days=days,
        sites={name: read_public_key(path) for name, path in sites.items()} if home is None else _site_keys_of(home),
        federation=None if home is None else _facts_of(home),
        release=for_release,
    )
    if registry is not None:
        write_registry_entry(written.signed.certificate, registry)
    certificate = written.signed.certificate
    if as_json:
        print_json(
            {
                "certificate": str(written.path),
                "verdict": certificate.verdict,
                "attention": [str(notice.kind) for notice in certificate.attention],
                "waiting_for": list(written.waiting_for),
                "registry": None if registry is None else str(registry),
            }
        )
        return
    for notice in certificate.attention:
        click.echo(f"{notice.kind}: {notice.text}")
    click.echo(certificate.verdict)
    if written.waiting_for:
        click.echo(f"waits for the signatures of {', '.join(written.waiting_for)} (fedveil countersign)")
    click.echo(f"certificate: {written.path}")
    if registry is not None:
        click.echo(f"registry entry: {registry} (fill in what it marks as TO FILL IN)")


@click.command("countersign")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--key", "key_path", type=click.Path(path_type=Path), help=KEY_HELP)
@click.option(
    "--site", "site", type=click.Path(path_type=Path), help="A real site's directory: it signs by its own key."
)
def countersign_command(file: Path, key_path: Path | None, site: Path | None) -> None:
    """Add a site's signature to a certificate that names its key, after computing every ε in it again.

    A real site (--site) also holds what is said of it to its own ledger, and does not sign for less.
    """
    from fedveil.certificate.verify import countersign
    from fedveil.core.signing import read_signing_key

    if (key_path is None) == (site is None):
        raise click.UsageError("give either --key or --site")
    if site is None:
        written = countersign(file, read_signing_key(Path(key_path or "")))
    else:
        from fedveil.site.countersigning import countersign_at_site
        from fedveil.site.home import SiteHome

        written = countersign_at_site(SiteHome(site), file)
    waiting = written.waiting_for
    click.echo(f"signed: {written.path}" + (f"; still waits for {', '.join(waiting)}" if waiting else "; complete"))


def _replay(checked: Verification, run: Path) -> bool:
    """Hold the certificate to the run's ledger too; False where PyTorch, which methods are written in, is not here."""
    try:
        from fedveil.studies.replayed_certificate import check_replayed
    except ImportError:
        return False
    home = _coordinator(run)
    if home is not None:
        from fedveil.federation.certified_plan import check_plan

        check_plan(checked.certificate, home)
    check_replayed(checked, run)
    return True


@click.command("verify")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--run",
    "run",
    type=click.Path(path_type=Path),
    help="The run (or coordinator's directory) it must be of.",
)
@click.option("--key", "key_path", type=click.Path(path_type=Path), help="The public key that must have signed it.")
@json_option
def verify_command(file: Path, run: Path | None, key_path: Path | None, as_json: bool) -> None:
    """Check a certificate: form, signatures, date, and every ε from its composition. Needs no data and no PyTorch."""
    from fedveil.certificate.verify import verify_certificate
    from fedveil.core.signing import read_public_key

    directory = run / "run" if run is not None and (run / "plan.json").is_file() else run
    checked = verify_certificate(file, key=None if key_path is None else read_public_key(key_path), run=directory)
    replayed = directory is not None and _replay(checked, directory)
    if as_json:
        facts = {
            "holds": checked.sound,
            "verdict": checked.certificate.verdict,
            "attention": [str(notice.kind) for notice in checked.certificate.attention],
            "digest": checked.digest,
            "compositions": checked.compositions,
            "signed_by": [each.name for each in checked.certificate.signatories],
            "replayed": replayed,
        }
        print_json(facts)
    else:
        click.echo(checked.line())
        if run is not None and not replayed:
            click.echo("PyTorch is not here, so the run's files were compared and its ledger was not replayed")
    if not checked.sound:
        raise click.exceptions.Exit(1)

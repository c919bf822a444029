"""`key`, `certify`, `countersign`, `verify`: a signed statement of what a run guarantees, and its check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedveil.cli.options import json_option, out_option, print_json

if TYPE_CHECKING:
    from fedveil.certificate.verify import Verification

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


@click.command("certify")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--key", "key_path", type=click.Path(path_type=Path), required=True, help=KEY_HELP)
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
    key_path: Path,
    signatory: str,
    justification: str,
    days: int,
    sites: dict[str, Path],
    for_release: bool,
    registry: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Write a signed certificate: what RUN guarantees, of what, against whom, and what it rests on."""
    from fedveil.certificate.registry_entry import write_registry_entry
    from fedveil.core.signing import read_public_key, read_signing_key
    from fedveil.studies.certify import certify_run

    written = certify_run(
        run,
        read_signing_key(key_path),
        signatory=signatory,
        out=out,
        justification=justification,
        days=days,
        sites={name: read_public_key(path) for name, path in sites.items()},
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
@click.option("--key", "key_path", type=click.Path(path_type=Path), required=True, help=KEY_HELP)
def countersign_command(file: Path, key_path: Path) -> None:
    """Add a site's signature to a certificate that names its key, after computing every ε in it again."""
    from fedveil.certificate.verify import countersign
    from fedveil.core.signing import read_signing_key

    written = countersign(file, read_signing_key(key_path))
    waiting = written.waiting_for
    click.echo(f"signed: {written.path}" + (f"; still waits for {', '.join(waiting)}" if waiting else "; complete"))


def _replay(checked: Verification, run: Path) -> bool:
    """Hold the certificate to the run's ledger too; False where PyTorch, which methods are written in, is not here."""
    try:
        from fedveil.studies.replayed_certificate import check_replayed
    except ImportError:
        return False
    check_replayed(checked, run)
    return True


@click.command("verify")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--run", "run", type=click.Path(path_type=Path), help="A run directory that must be the certified one.")
@click.option("--key", "key_path", type=click.Path(path_type=Path), help="The public key that must have signed it.")
@json_option
def verify_command(file: Path, run: Path | None, key_path: Path | None, as_json: bool) -> None:
    """Check a certificate: form, signatures, date, and every ε from its composition. Needs no data and no PyTorch."""
    from fedveil.certificate.verify import verify_certificate
    from fedveil.core.signing import read_public_key

    checked = verify_certificate(file, key=None if key_path is None else read_public_key(key_path), run=run)
    replayed = run is not None and _replay(checked, run)
    if as_json:
        facts = {
            "holds": checked.sound,
            "verdict": checked.certificate.verdict,
            "attention": [str(notice.kind) for notice in checked.certificate.attention],
            "digest": checked.digest,
            "compositions": checked.compositions,
            "replayed": replayed,
        }
        print_json(facts)
    else:
        click.echo(checked.line())
        if run is not None and not replayed:
            click.echo("PyTorch is not here, so the run's files were compared and its ledger was not replayed")
    if not checked.sound:
        raise click.exceptions.Exit(1)

"""``colonnade keys FOLDER --owner HOST NAME ...`` and ``colonnade keys revoke FOLDER NAME``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from colonnade.cli.app import Json, app, print_json

BRING_YOUR_OWN = (
    "To bring your own certificates instead, put them in place of these: the owner's names its hosts (SAN) and is good "
    "for servers; a party's has the party's name as its one common name (CN) and is good for clients; ca.pem holds the "
    "CAs of all sides; keys are PEM without a password."
)


class _MakesByDefault(TyperGroup):
    """``keys FOLDER ...`` means ``keys make FOLDER ...``; for a folder with the name of a verb, write ./make."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add the verb ``make`` if there is none."""
        if args and args[0] not in (*self.commands, "--help"):
            args = ["make", *args]
        return super().parse_args(ctx, args)


keys = typer.Typer(
    cls=_MakesByDefault,
    no_args_is_help=True,
    help="Make the keys of a trial between organisations: colonnade keys FOLDER --owner HOST NAME NAME ...\n\n"
    f"That is short for colonnade keys make; see its --help. {BRING_YOUR_OWN}",
    epilog="Example: colonnade keys trial --owner owner.example bank shop",
)
app.add_typer(keys, name="keys")


@keys.command(epilog="Example: colonnade keys trial --owner owner.example,10.0.0.5 bank shop")
def make(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the CA and a folder per side go.")],
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The parties' names, as the job has them.")],
    owner: Annotated[
        str, typer.Option(metavar="HOST[,HOST]", help="Host names or addresses at which parties dial the owner.")
    ] = "",
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long the certificates are good.")] = 365,
    json: Json = False,
) -> None:
    """Make a private CA for a trial, and for the owner and each party a certificate and a signing identity.

    Run it again without --owner to add parties under the same CA. Nothing is ever overwritten.
    """
    from colonnade.federation.certificates import OWNER, fingerprint, make_keys

    hosts = [host.strip() for host in owner.split(",") if host.strip()]
    sides = make_keys(folder, hosts, names, days=days)
    prints = {side.name: fingerprint((side / "cert.pem").read_bytes()) for side in sides}
    if json:
        print_json({"ca": str(folder / "ca.pem"), "sides": {s.name: str(s) for s in sides}, "fingerprints": prints})
        return
    for side in sides:
        whose = "the owner" if side.name == OWNER else f"'{side.name}'"
        typer.echo(f"{side}/  for {whose} and nobody else; certificate {prints[side.name][:16]}...")
    typer.echo(
        "\nHand each side its folder by a way that nobody else reads, and delete it here: key.pem and identity.key "
        "speak for it.\nHand everybody's identity.pub to everybody; it is no secret.\n"
        f"Take {folder / 'ca.key'} offline: whoever has it can speak for any side.\n{BRING_YOUR_OWN}"
    )


@keys.command(epilog="Example: colonnade keys revoke trial bank")
def revoke(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of the CA, with ca.key in it.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose certificate is good no more.")],
    json: Json = False,
) -> None:
    """Put a side's certificate on the revocation list, crl.pem, which every side then needs again."""
    from colonnade.federation.certificates import common_name, fingerprint
    from colonnade.federation.certificates import revoke as revoke_side

    path = revoke_side(folder, name)
    pem = (folder / name / "cert.pem").read_bytes()
    if json:
        print_json({"crl": str(path), "revoked": common_name(pem), "fingerprint": fingerprint(pem)})
        return
    typer.echo(f"{path}  now revokes '{common_name(pem)}' ({fingerprint(pem)[:16]}...); hand it to every side.")

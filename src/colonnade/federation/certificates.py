"""Who may speak for a side: certificates for the connection (TLS) and Ed25519 identities for what is signed.

``make_keys`` serves a trial: it makes a private CA and everything each side needs, so whoever runs it could speak for
any side. Organisations that have a CA bring their own certificates; the readers below do not care who made them:

- the owner's certificate names the host names or addresses that parties dial (SAN) and is good for servers;
- a party's certificate has the party's name as its only common name (CN) and is good for clients;
- ``ca.pem`` holds the CA certificates that the *other* sides' certificates were issued by, and one's own.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from colonnade.disk.small_files import read_small
from colonnade.disk.whole_files import write_bytes
from colonnade.errors import FolderError, LinkError, RefusedError, printable
from colonnade.signatures import Identity

OWNER = "owner"
LONGEST_NAME = 64  # of a certificate, by the standard
_SKEW = timedelta(hours=1)  # a certificate is good a little before it was made: clocks of two machines differ
_NAME = re.compile(r"\w[\w .-]{0,62}\w|\w")  # what can be a folder and, with at most 64 characters, a common name


@dataclass(frozen=True)
class Credentials:
    """A side's TLS files as PEM: its certificate chain, its key, and the CAs that it trusts."""

    cert: bytes
    key: bytes = field(repr=False)
    ca: bytes


# Reading


def read_credentials(cert: str | Path, key: str | Path, ca: str | Path) -> Credentials:
    """A side's certificate, private key and CA from three PEM files; what a connection would refuse is refused here."""
    credentials = Credentials(_read(cert), _read(key), _read(ca))
    chain, roots = _certificates(credentials.cert, cert), _certificates(credentials.ca, ca)
    own = chain[0]
    _check_pair(own, credentials.key, cert, key)
    check_dates(own, f"the certificate {cert}")
    root = _root_of(chain, roots)
    if root is None:
        raise RefusedError(
            f"the certificate {cert} was issued by another CA than {ca}; bring the two that belong together."
        )
    check_dates(root, f"the CA certificate in {ca}")
    return credentials


def read_identity(path: str | Path) -> Identity:
    """The private Ed25519 identity of a side: 32 bytes as base64 text."""
    return Identity(_thirty_two(_read(path), f"the identity {path}"))


def fingerprint(pem: bytes) -> str:
    """The SHA-256 of a certificate in hexadecimal, as ``openssl x509 -fingerprint -sha256`` has it without colons."""
    return first_certificate(pem).fingerprint(SHA256()).hex()


def common_name(pem: bytes) -> str:
    """Whose certificate it is; none or several names are refused, since it must be one side's."""
    names = first_certificate(pem).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) != 1:
        raise RefusedError(f"a certificate with {len(names)} common names came; it needs one, the name of its side.")
    name = str(names[0].value)
    if not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
        raise RefusedError(
            f"a certificate of '{printable(name, 80)}' came; its name must have 1 to {LONGEST_NAME} printable letters."
        )
    return name


def first_certificate(pem: bytes) -> x509.Certificate:
    """The first certificate of a PEM text: a side's own."""
    return _certificates(pem, "that came")[0]


def check_serves(pem: bytes) -> None:
    """Refuse a certificate that is not for servers; otherwise every party would refuse it later."""
    try:
        uses = first_certificate(pem).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:  # good for all
        return
    if not {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(uses):
        raise RefusedError(
            f"the certificate is of '{common_name(pem)}' and not one for a server; bring the owner's and not a party's."
        )


def check_dates(certificate: x509.Certificate, what: str) -> None:
    """Refuse a certificate that is not valid at present."""
    now = datetime.now(UTC)
    if now < certificate.not_valid_before_utc:
        raise RefusedError(
            f"{what} is not yet valid: it begins at {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC and here it "
            f"is {now:%Y-%m-%d %H:%M}; check the clock."
        )
    if now > certificate.not_valid_after_utc:
        raise RefusedError(
            f"{what} expired at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC and here it is "
            f"{now:%Y-%m-%d %H:%M}; bring a new one."
        )


def check_not_revoked(pem: bytes, crl: str | Path | None, ca: bytes) -> None:
    """Refuse a certificate that its CA revoked; a list that is out of date, or not that CA's, is refused as well."""
    if crl is None:
        return
    certificate, revoked = first_certificate(pem), _read_crl(crl, ca)
    if certificate.issuer != revoked.issuer:
        raise RefusedError(
            f"the revocation list {crl} is not of the CA that issued the certificate; bring that CA's list."
        )
    if revoked.next_update_utc is not None and revoked.next_update_utc < datetime.now(UTC):
        raise RefusedError(
            f"the revocation list {crl} was good until {revoked.next_update_utc:%Y-%m-%d %H:%M} UTC; bring a newer one."
        )
    entry = revoked.get_revoked_certificate_by_serial_number(certificate.serial_number)
    if entry is not None:
        raise RefusedError(
            f"the certificate of '{common_name(pem)}' was revoked at {entry.revocation_date_utc:%Y-%m-%d %H:%M} UTC; "
            "it must get a new one."
        )


def _read(path: str | Path) -> bytes:
    try:
        return read_small(path)
    except OSError as error:
        raise RefusedError(
            f"{path} cannot be read: {error.strerror}; `colonnade keys` makes what a trial needs."
        ) from None


def _certificates(pem: bytes, what: str | Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise RefusedError(
            f"the certificate {what} is not a certificate as PEM; expected -----BEGIN CERTIFICATE."
        ) from None


def _check_pair(certificate: x509.Certificate, key: bytes, cert_path: str | Path, key_path: str | Path) -> None:
    try:
        public = load_pem_private_key(key, None).public_key()
    except TypeError:
        raise RefusedError(
            f"the key {key_path} has a password; give a key without one that only its side can read."
        ) from None
    except ValueError:
        raise RefusedError(
            f"the key {key_path} is not a private key as PEM; expected -----BEGIN PRIVATE KEY."
        ) from None
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if public.public_bytes(*form) != certificate.public_key().public_bytes(*form):
        raise RefusedError(f"the key {key_path} does not belong to the certificate {cert_path}; bring the pair.")


def _root_of(chain: Sequence[x509.Certificate], roots: Sequence[x509.Certificate]) -> x509.Certificate | None:
    """The CA certificate that a chain ends at, or None."""
    last, between = chain[0], list(chain[1:])
    while True:
        for root in roots:
            if _issued(last, root):
                return root
        above = next((issuer for issuer in between if _issued(last, issuer)), None)
        if above is None:
            return None
        between.remove(above)
        last = above


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _read_crl(path: str | Path, ca: bytes) -> x509.CertificateRevocationList:
    try:
        crl = x509.load_pem_x509_crl(_read(path))
    except ValueError:
        raise RefusedError(f"{path} is not a revocation list as PEM; expected -----BEGIN X509 CRL.") from None
    for root in _certificates(ca, "of the CA"):
        if root.subject == crl.issuer and crl.is_signature_valid(root.public_key()):  # type: ignore[arg-type]
            return crl
    raise RefusedError(f"the revocation list {path} is not signed by our CA; bring the list of that CA.")


def _thirty_two(text: bytes, what: str) -> bytes:
    try:
        raw = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != 32:
        raise RefusedError(f"{what} is not 32 bytes as base64 text; `colonnade keys` writes such files.")
    return raw


# Making, for a trial


def make_keys(folder: str | Path, hosts: Sequence[str], parties: Sequence[str], *, days: int = 365) -> list[Path]:
    """Make the CA (unless the folder has one) and each side's folder; the owner's only where ``hosts`` are given.

    Nothing is ever overwritten: a side that is there already is refused before anything is written.
    """
    place = Path(folder)
    sides = [*([OWNER] if hosts else []), *parties]
    _check_sides(place, sides, parties)
    for host in hosts:
        _host(host)
    if not (place / "ca.key").exists():
        if not hosts:
            raise LinkError(f"{place} has no CA yet, and so no owner; say with --owner which host the parties dial.")
        _make_ca(place, days)
    ca, ca_key = _load_ca(place)
    for side in sides:
        _make_side(place / side, side, hosts if side == OWNER else (), ca, ca_key, days)
    return [place / side for side in sides]


def revoke(folder: str | Path, name: str) -> Path:
    """Put a side's certificate on the CA's revocation list, ``crl.pem``; every side needs the new list."""
    place = Path(folder)
    ca, ca_key = _load_ca(place)
    certificate = first_certificate(_read(place / name / "cert.pem"))
    pem, path, now = ca.public_bytes(Encoding.PEM), place / "crl.pem", datetime.now(UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(ca.subject).last_update(now)
    if path.exists():
        before = _read_crl(path, pem)
        if before.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None:
            raise LinkError(f"the certificate of '{name}' in {place} is on {path} already; nothing is left to do.")
        for entry in before:
            builder = builder.add_revoked_certificate(entry)
    entry = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number).revocation_date(now).build()
    crl = builder.add_revoked_certificate(entry).next_update(ca.not_valid_after_utc).sign(ca_key, SHA256())
    write_bytes(path, crl.public_bytes(Encoding.PEM))
    return path


def _check_sides(place: Path, sides: Sequence[str], parties: Sequence[str]) -> None:
    for name in parties:
        if name.casefold() == OWNER or not _NAME.fullmatch(name):
            raise LinkError(
                f"{name!r} cannot be a party's name here; take up to 64 letters, digits, spaces, dots, dashes or "
                f"underscores, and not '{OWNER}'."
            )
    if not sides or len({side.casefold() for side in sides}) != len(sides):
        raise LinkError("a side is missing or came twice; name every party once.")
    for side in sides:
        if (place / side).exists():
            raise LinkError(f"{place / side} is there already and is never overwritten; choose another folder or name.")
    if (place / "ca.pem").exists() != (place / "ca.key").exists():
        raise LinkError(f"{place} has one of ca.pem and ca.key; bring the other back, or choose another folder.")


def _make_ca(place: Path, days: int) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = f"Colonnade trial CA {os.urandom(4).hex()}"  # two trials' CAs differ in name, so that errors can tell
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)  # signs certificates and CRLs
    builder = _builder(name, name, key, key, days).add_extension(usage, critical=True)
    ca = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True).sign(key, SHA256())
    _write(place, {"ca.key": _private_pem(key), "ca.pem": ca.public_bytes(Encoding.PEM)})


def _load_ca(place: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    ca, pem = first_certificate(_read(place / "ca.pem")), _read(place / "ca.key")
    _check_pair(ca, pem, place / "ca.pem", place / "ca.key")
    key = load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise LinkError(f"{place / 'ca.key'} is not a key that `colonnade keys` made; use the tools of that CA.")
    return ca, key


def _make_side(
    place: Path, name: str, hosts: Sequence[str], ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey, days: int
) -> None:
    key, identity = ec.generate_private_key(ec.SECP256R1()), Identity.new()
    use = (
        ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    )  # no party can pose as the owner
    # a party's name is a URI, never a host name: parties choose names, and one could choose the owner's host
    names = [_host(host) for host in hosts] or [x509.UniformResourceIdentifier(f"urn:colonnade:party:{quote(name)}")]
    issuer = ca.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    certificate = (
        _builder(name, str(issuer), key, ca_key, days, until=ca.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(True, False, False, False, False, False, False, False, False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(ca_key, SHA256())
    )
    files = {
        "cert.pem": certificate.public_bytes(Encoding.PEM),
        "key.pem": _private_pem(key),
        "ca.pem": ca.public_bytes(Encoding.PEM),
        "identity.key": base64.b64encode(identity.private()) + b"\n",
        "identity.pub": base64.b64encode(identity.public) + b"\n",
    }
    _write(place, files)


def _builder(
    name: str,
    issuer: str,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    days: int,
    until: datetime | None = None,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    end = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(min(end, until) if until else end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not re.fullmatch(r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", host):
        raise LinkError(f"'{host}' is neither a host name nor an address; give what parties dial, without a port.")
    return x509.DNSName(host)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(place: Path, files: dict[str, bytes]) -> None:
    """Write new files, secret ones readable by their owner only; a file that exists is never touched."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, raw in files.items():
            mode = 0o600 if name.endswith(".key") or name == "key.pem" else 0o644
            with open(os.open(place / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(raw)
    except FileExistsError as error:
        raise LinkError(f"{error.filename} is there already and is never overwritten; choose another folder.") from None
    except OSError as error:
        raise FolderError(f"{place} cannot be written: {error.strerror}; choose another folder.") from None

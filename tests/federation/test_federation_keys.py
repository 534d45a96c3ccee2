"""The keys of a federation: what `colonnade keys` makes, what is refused when it is read, and revocation."""

from __future__ import annotations

import base64
import json
import shutil
import stat
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.errors import LinkError
from colonnade.federation.certificates import (
    check_not_revoked,
    common_name,
    fingerprint,
    make_keys,
    read_credentials,
    read_identity,
    revoke,
)
from colonnade.federation.public_keys import read_public
from colonnade.signatures import verify


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys") / "trial"
    make_keys(folder, ["owner.example", "127.0.0.1", "::1"], ["bank", "Kreditbüro 2"])
    return folder


@pytest.fixture
def trial(made: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(made, tmp_path / "trial"))


def read(folder: Path, side: str, **other: Path):
    paths = {name: folder / side / f"{name}.pem" for name in ("cert", "key", "ca")}
    return read_credentials(**{**paths, **other})


def refusal(work: Callable[[], object]) -> str:
    """The one sentence of a refusal."""
    with pytest.raises(LinkError) as caught:
        work()
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence
    return sentence


def colonnade(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


def reissue(folder: Path, side: str, start: timedelta, end: timedelta) -> None:
    """Give a side a certificate of the same CA and key with other dates."""
    old = x509.load_pem_x509_certificate((folder / side / "cert.pem").read_bytes())
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(old.subject).issuer_name(old.issuer).public_key(old.public_key())
    builder = (
        builder.serial_number(x509.random_serial_number()).not_valid_before(now + start).not_valid_after(now + end)
    )
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    key = load_pem_private_key((folder / "ca.key").read_bytes(), None)
    (folder / side / "cert.pem").write_bytes(builder.sign(key, SHA256()).public_bytes(Encoding.PEM))


# What is made


def test_every_side_gets_what_it_needs_and_secrets_are_its_own(made: Path) -> None:
    for side in ("owner", "bank", "Kreditbüro 2"):
        files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (made / side).iterdir()}
        assert set(files) == {"cert.pem", "key.pem", "ca.pem", "identity.key", "identity.pub"}
        assert files["key.pem"] == files["identity.key"] == 0o600
        credentials = read(made, side)
        assert common_name(credentials.cert) == side
        assert "PRIVATE" not in repr(credentials)
        identity = read_identity(made / side / "identity.key")
        public = read_public(made / side / "identity.pub")
        verify(public, b"text", identity.sign(b"text"))
        assert read_public((made / side / "identity.pub").read_text().strip()) == public
    assert stat.S_IMODE((made / "ca.key").stat().st_mode) == 0o600


def test_the_certificates_say_who_serves_and_who_dials(made: Path) -> None:
    def extensions(side: str) -> x509.Extensions:
        return x509.load_pem_x509_certificate((made / side / "cert.pem").read_bytes()).extensions

    owner = extensions("owner").get_extension_for_class(x509.SubjectAlternativeName).value
    assert owner.get_values_for_type(x509.DNSName) == ["owner.example"]
    assert [str(ip) for ip in owner.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    party = extensions("Kreditbüro 2").get_extension_for_class(x509.SubjectAlternativeName).value
    assert [type(name) for name in party] == [x509.UniformResourceIdentifier]  # never a host name
    usage = {side: extensions(side).get_extension_for_class(x509.ExtendedKeyUsage).value for side in ("owner", "bank")}
    assert [use._name for use in (*usage["owner"], *usage["bank"])] == ["serverAuth", "clientAuth"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_openssl_agrees(made: Path) -> None:
    done = subprocess.run(
        [
            "openssl",
            "verify",
            "-x509_strict",
            "-purpose",
            "sslclient",
            "-CAfile",
            made / "ca.pem",
            made / "bank/cert.pem",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = subprocess.run(
        ["openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", made / "bank/cert.pem"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown.strip().rpartition("=")[2].replace(":", "").lower() == fingerprint(
        (made / "bank/cert.pem").read_bytes()
    )


def test_days_count(tmp_path: Path) -> None:
    make_keys(tmp_path, ["localhost"], ["a"], days=3)
    end = x509.load_pem_x509_certificate((tmp_path / "a/cert.pem").read_bytes()).not_valid_after_utc
    assert timedelta(days=2.9) < end - datetime.now(UTC) < timedelta(days=3)


def test_parties_are_added_under_the_same_ca_and_nothing_is_overwritten(trial: Path) -> None:
    before = {path: path.read_bytes() for path in trial.rglob("*.*")}
    assert "never overwritten" in refusal(lambda: make_keys(trial, [], ["shop", "bank"]))
    assert not (trial / "shop").exists()
    make_keys(trial, [], ["shop"])
    assert read(trial, "shop").ca == read(trial, "bank").ca
    assert all(path.read_bytes() == raw for path, raw in before.items())


@pytest.mark.parametrize("name", ["owner", "Owner", "..", "a/b", "", "x" * 65, "a\nb", ".hidden"])
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    assert "cannot be a party's name" in refusal(lambda: make_keys(tmp_path / "k", ["localhost"], [name]))
    assert not (tmp_path / "k").exists()


def test_hosts_and_owners_that_cannot_be(tmp_path: Path) -> None:
    assert "neither a host name" in refusal(lambda: make_keys(tmp_path / "k", ["localhost:8443"], ["a"]))
    assert "say with --owner" in refusal(lambda: make_keys(tmp_path / "k", [], ["a"]))
    assert "name every party once" in refusal(lambda: make_keys(tmp_path / "k", ["localhost"], ["a", "A"]))
    assert not (tmp_path / "k").exists()


# What is refused


def test_a_missing_file(made: Path) -> None:
    assert "cannot be read" in refusal(lambda: read(made, "bank", key=made / "nothing.pem"))


def test_a_key_of_another_certificate(made: Path) -> None:
    assert "does not belong" in refusal(lambda: read(made, "bank", key=made / "owner/key.pem"))


def test_files_that_are_something_else(made: Path) -> None:
    assert "not a certificate" in refusal(lambda: read(made, "bank", cert=made / "bank/key.pem"))
    assert "not a private key" in refusal(lambda: read(made, "bank", key=made / "bank/cert.pem"))
    assert "not 32 bytes" in refusal(lambda: read_identity(made / "bank/cert.pem"))
    assert "cannot be read" in refusal(lambda: read_public(base64.b64encode(b"short").decode()))


def test_a_public_identity_has_the_same_forms_in_a_file_and_as_a_text(made: Path, tmp_path: Path) -> None:
    public = read_public(made / "bank" / "identity.pub")
    pem = Ed25519PublicKey.from_public_bytes(public).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for text in (public.hex(), base64.b64encode(public).decode(), pem.decode()):
        (tmp_path / "a key").write_text(f"{text}\n")
        assert read_public(tmp_path / "a key") == read_public(text) == public
    assert "holds no Ed25519 public key" in refusal(lambda: read_public(made / "bank/cert.pem"))
    assert "holds no Ed25519 public key" in refusal(lambda: read_public("-----BEGIN PUBLIC KEY-----"))


def test_a_key_with_a_password(trial: Path) -> None:
    key = load_pem_private_key((trial / "bank/key.pem").read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    (trial / "bank/key.pem").write_bytes(locked)
    assert "has a password" in refusal(lambda: read(trial, "bank"))


def test_an_expired_certificate(trial: Path) -> None:
    reissue(trial, "bank", timedelta(days=-2), timedelta(days=-1))
    assert "expired" in refusal(lambda: read(trial, "bank"))


def test_a_certificate_of_tomorrow(trial: Path) -> None:
    reissue(trial, "bank", timedelta(days=1), timedelta(days=2))
    assert "check the clock" in refusal(lambda: read(trial, "bank"))


def test_another_ca(made: Path, tmp_path: Path) -> None:
    make_keys(tmp_path, ["localhost"], ["bank"])
    assert "issued by another CA" in refusal(lambda: read(made, "bank", ca=tmp_path / "ca.pem"))


def test_a_chain_with_a_ca_between(tmp_path: Path) -> None:
    def issue(name: str, ca: bool, issuer: str, signer: ec.EllipticCurvePrivateKey, key: ec.EllipticCurvePrivateKey):
        names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (name, issuer)]
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(names[1], names[0], key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
        builder = builder.add_extension(x509.BasicConstraints(ca, None), critical=True)
        return builder.sign(signer, SHA256()).public_bytes(Encoding.PEM)

    root, between = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    make_keys(tmp_path, ["localhost"], ["bank"])
    own = load_pem_private_key((tmp_path / "bank/key.pem").read_bytes(), None)
    assert isinstance(own, ec.EllipticCurvePrivateKey)
    leaf, middle = issue("bank", False, "between", between, own), issue("between", True, "root", root, between)
    (tmp_path / "bank/ca.pem").write_bytes(issue("root", True, "root", root, root))
    (tmp_path / "bank/cert.pem").write_bytes(leaf + middle)
    assert common_name(read(tmp_path, "bank").cert) == "bank"
    (tmp_path / "bank/cert.pem").write_bytes(leaf)
    assert "issued by another CA" in refusal(lambda: read(tmp_path, "bank"))


# Revocation


def test_what_is_revoked_stays_revoked_and_the_others_do_not_care(trial: Path) -> None:
    ca, crl = (trial / "ca.pem").read_bytes(), trial / "crl.pem"
    pem = {side: (trial / side / "cert.pem").read_bytes() for side in ("owner", "bank", "Kreditbüro 2")}
    check_not_revoked(pem["bank"], None, ca)
    assert revoke(trial, "bank") == crl
    check_not_revoked(pem["owner"], crl, ca)
    revoke(trial, "Kreditbüro 2")
    for side in ("bank", "Kreditbüro 2"):
        assert f"'{side}' was revoked" in refusal(lambda side=side: check_not_revoked(pem[side], crl, ca))
    check_not_revoked(pem["owner"], crl, ca)
    assert "already" in refusal(lambda: revoke(trial, "bank"))
    assert "cannot be read" in refusal(lambda: revoke(trial, "nobody"))


def test_a_list_that_cannot_be_believed(trial: Path, tmp_path: Path) -> None:
    make_keys(tmp_path / "other", ["localhost"], ["bank"])
    ca, bank = (trial / "ca.pem").read_bytes(), (trial / "bank/cert.pem").read_bytes()
    foreign = revoke(tmp_path / "other", "bank")
    assert "not signed by our CA" in refusal(lambda: check_not_revoked(bank, foreign, ca))
    both = ca + (tmp_path / "other/ca.pem").read_bytes()
    assert "not of the CA that issued" in refusal(lambda: check_not_revoked(bank, foreign, both))
    assert "cannot be read" in refusal(lambda: check_not_revoked(bank, trial / "crl.pem", ca))
    assert "not a revocation list" in refusal(lambda: check_not_revoked(bank, trial / "ca.pem", ca))


def test_a_list_that_is_out_of_date(trial: Path) -> None:
    ca = x509.load_pem_x509_certificate((trial / "ca.pem").read_bytes())
    key = load_pem_private_key((trial / "ca.key").read_bytes(), None)
    now = datetime.now(UTC)
    builder = x509.CertificateRevocationListBuilder(ca.subject, now - timedelta(days=2), now - timedelta(days=1))
    (trial / "crl.pem").write_bytes(builder.sign(key, SHA256()).public_bytes(Encoding.PEM))
    bank = (trial / "bank/cert.pem").read_bytes()
    sentence = refusal(lambda: check_not_revoked(bank, trial / "crl.pem", ca.public_bytes(Encoding.PEM)))
    assert "bring a newer one" in sentence


# The verb


def test_the_verb_makes_keys_and_says_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "trial"
    made = colonnade("keys", folder, "--owner", "localhost,127.0.0.1", "bank", "shop")
    assert made.exit_code == 0, made.output
    for part in ("'bank'", "'shop'", "the owner", "ca.key offline", "bring your own"):
        assert part in made.stdout, part
    again = colonnade("keys", folder, "bank")
    assert again.exit_code == 2 and "never overwritten" in again.stderr and len(again.stderr.splitlines()) == 1
    more = colonnade("keys", folder, "mill", "--json", "--days", 5)
    assert list(json.loads(more.stdout)["sides"]) == ["mill"]
    revoked = colonnade("keys", "revoke", folder, "bank")
    assert revoked.exit_code == 0 and (folder / "crl.pem").exists() and "'bank'" in revoked.stdout


def test_the_help_says_how_to_bring_certificates() -> None:
    whole = " ".join(colonnade("keys", "--help").stdout.replace("│", " ").split())
    assert "To bring your own certificates" in whole and "Example: colonnade keys" in whole
    assert "--owner" in colonnade("keys", "make", "--help").stdout

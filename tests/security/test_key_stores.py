"""Stores of type PKCS12 and JKS, as `cryptography` and pyjks write them. Those of keytool: interop tests."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kcli.errors import KcliError, UsageError
from kcli.security.certificates.distinguished_name import subject_of
from kcli.security.certificates.key_stores import StoreSettings, read_store
from kcli.security.certificates.pem import PemBlock, certificates_of, pem_blocks, private_key_of
from kcli.security.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.certificates import Certificates

PASSWORD = "store-s3cret"
DAMAGED = "wrong password, or the file is damaged"


def store(
    path: Path | str, kind: str = "key", password: str | None = PASSWORD, type: str = "JKS"
) -> StoreSettings:
    return StoreSettings(kind, type, str(path), None if password is None else Secret(password))


def pkcs8(certificates: Certificates, name: str) -> bytes:
    """Return the private key of a PEM file as PKCS 8."""
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(private_key_of(certificates.text(name)).to_text().encode(), None)
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.DER, form, serialization.NoEncryption())


def write_pkcs12(certificates: Certificates, path: Path) -> Path:
    """Write alice's key, and the authority's certificate in no order."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    key = serialization.load_der_private_key(pkcs8(certificates, "alice.pem"), None)
    chain = [
        x509.load_der_x509_certificate(each)
        for name in ("alice.pem", "ca.pem", "broker.pem")
        for each in certificates_of(certificates.text(name))
    ]
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"alice",
            key,  # type: ignore[arg-type]
            chain[0],
            [*reversed(chain[1:])],
            serialization.BestAvailableEncryption(PASSWORD.encode()),
        )
    )
    return path


def write_jks(certificates: Certificates, path: Path) -> Path:
    """Write alice's key under a password of its own, and the authority as trusted."""
    import jks

    own = certificates_of(certificates.text("alice.pem"))
    (authority,) = certificates_of(certificates.text("ca.pem"))
    key = jks.PrivateKeyEntry.new("alice", [*own, authority], pkcs8(certificates, "alice.pem"), "pkcs8")
    key.encrypt("key-s3cret")
    trusted = jks.TrustedCertEntry.new("authority", authority)
    jks.KeyStore.new("jks", [trusted, key]).save(str(path), PASSWORD)
    return path


def subjects(certificates: tuple[bytes, ...]) -> list[str]:
    """Return common names, or units of authorities."""
    return [subject_of(each).partition(",")[0].split(" ")[0] for each in certificates]


def test_a_pkcs12_store_has_a_key_and_its_chain_in_order(certificates: Certificates, tmp_path: Path) -> None:
    read = read_store(store(write_pkcs12(certificates, tmp_path / "alice.p12"), type="PKCS12"))
    assert private_key_of(read.key).data == pkcs8(certificates, "alice.pem")
    assert subjects(read.chain) == ["CN=alice", "OU=Testing"]
    assert read.key_password is None


def test_the_chain_of_a_pkcs12_key_is_not_trusted(certificates: Certificates, tmp_path: Path) -> None:
    path = write_pkcs12(certificates, tmp_path / "alice.p12")
    assert subjects(read_store(store(path, "trust")).trusted) == ["CN=alice"]


def test_a_jks_store_has_a_key_with_a_password_of_its_own(certificates: Certificates, tmp_path: Path) -> None:
    path = write_jks(certificates, tmp_path / "alice.jks")
    read = read_store(store(path)._replace(key_password=Secret("key-s3cret")))
    assert private_key_of(read.key).data == pkcs8(certificates, "alice.pem")
    assert subjects(read.chain) == ["CN=alice", "OU=Testing"]
    with pytest.raises(UsageError, match=DAMAGED):
        read_store(store(path))


def test_a_jks_store_trusts_its_certificates_and_the_keys_own(
    certificates: Certificates, tmp_path: Path
) -> None:
    path = write_jks(certificates, tmp_path / "alice.jks")
    for password in (PASSWORD, None):
        assert sorted(subjects(read_store(store(path, "trust", password)).trusted)) == [
            "CN=alice",
            "OU=Testing",
        ]


WRITERS = pytest.mark.parametrize("write", [write_pkcs12, write_jks])


@WRITERS
def test_a_store_tells_its_type_by_itself_as_in_java(
    certificates: Certificates, tmp_path: Path, write: Callable[[Certificates, Path], Path]
) -> None:
    path = write(certificates, tmp_path / "store")
    for kind in ("JKS", "PKCS12"):
        assert read_store(store(path, "trust", type=kind)).trusted


@WRITERS
def test_a_wrong_password_and_damage_are_one_error(
    certificates: Certificates, tmp_path: Path, write: Callable[[Certificates, Path], Path]
) -> None:
    path = write(certificates, tmp_path / "store")
    whole = path.read_bytes()
    errors = set()
    with pytest.raises(UsageError) as wrong:
        read_store(store(path, "trust", "guess"))
    errors.add(wrong.value.message)
    for position in range(0, len(whole), 13):
        for damaged in (whole[:position], whole[:position] + b"\xff" + whole[position + 1 :]):
            path.write_bytes(damaged)
            if damaged != whole:
                with pytest.raises(UsageError) as refused:
                    read_store(store(path, "trust"))
                errors.add(refused.value.message)
    assert errors == {f"cannot use the trust store `{path}`: {DAMAGED}"}


def test_a_damaged_jks_store_without_a_password_is_read_or_refused(
    certificates: Certificates, tmp_path: Path
) -> None:
    path = write_jks(certificates, tmp_path / "store")
    whole = path.read_bytes()
    seen = set()
    for position in range(0, len(whole), 3):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x81]) + whole[position + 1 :])
        try:
            seen.add(f"{len(read_store(store(path, 'trust', None)).trusted)} certificates")
        except UsageError as error:
            seen.add(error.message.partition(": ")[2])
    # Many bytes are those of keys and digests, which nobody looks at here.
    assert {"2 certificates", DAMAGED} <= seen <= {"2 certificates", "1 certificates", DAMAGED}


def test_a_store_lacks_what_its_kind_needs(tmp_path: Path) -> None:
    import jks

    path = tmp_path / "empty.jks"
    jks.KeyStore.new("jks", []).save(str(path), PASSWORD)
    with pytest.raises(UsageError, match="it has no private key"):
        read_store(store(path))
    with pytest.raises(UsageError, match="it has no trusted certificate"):
        read_store(store(path, "trust"))


@pytest.mark.parametrize(
    ("type", "words"),
    [
        ("JCEKS", "keytool -importkeystore -srckeystore store.bin -srcstoretype JCEKS"),
        ("BKS", "-providerclass org.bouncycastle.jce.provider.BouncyCastleProvider"),
        ("PKCS11", "keytool -importkeystore -srckeystore NONE -srcstoretype PKCS11"),
        ("PKCS21", "did you mean `PKCS12`?"),
        ("Windows-MY", "kcli reads PEM, PKCS12, JKS"),
    ],
)
def test_a_type_that_kcli_does_not_read_has_a_hint(type: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_store(store("store.bin", type=type))
    assert type in refused.value.message
    assert words in (refused.value.hint or "")


def test_a_pem_file_of_another_type_has_a_hint(certificates: Certificates) -> None:
    with pytest.raises(UsageError) as refused:
        read_store(store(certificates.path("alice.pem")))
    assert refused.value.hint == "set `ssl.keystore.type=PEM`"


def test_without_cryptography_the_hint_tells_what_to_install(
    certificates: Certificates, tmp_path: Path
) -> None:
    path = write_pkcs12(certificates, tmp_path / "alice.p12")
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from kcli.errors import KcliError\n"
        "from kcli.security.certificates.key_stores import StoreSettings, read_store\n"
        f"try: read_store(StoreSettings('key', 'PKCS12', {str(path)!r}))\n"
        "except KcliError as error: print(error.message, error.hint, sep='|')"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert told == "PKCS12 stores need cryptography|pip install 'cryptography>=45'\n"
    assert issubclass(UsageError, KcliError)


def test_pem_text_is_written_as_it_was_read(certificates: Certificates) -> None:
    text = certificates.text("alice.pem")
    assert "".join(block.to_text() for block in pem_blocks(text)) == text
    with pytest.raises(ValueError, match="it is damaged"):
        pem_blocks("-----BEGIN A-----\n=x=\n-----END A-----\n")
    assert not PemBlock("PRIVATE KEY", "", b"").is_encrypted

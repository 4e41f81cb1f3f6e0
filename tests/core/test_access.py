"""How clients get into a cluster: files of Kafka's tools, arguments of aiokafka, and no secret in any error."""

from __future__ import annotations

import inspect
import os
import pickle
import shutil
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import aiokafka
import javaproperties
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from pytest_kafkaperf.access import Access, Mechanism, Protocol, read_access, read_client_properties
from pytest_kafkaperf.clusters.certificates import Certificates, certificates
from pytest_kafkaperf.errors import UsageError

SECRET = "hunter2-zq"  # noqa: S105 - looked for in every error
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
VALID = (
    "bootstrap.servers",
    "client.id",
    "connections.max.idle.ms",
    "metadata.max.age.ms",
    "request.timeout.ms",
    "retry.backoff.ms",
    "sasl.jaas.config",
    "sasl.mechanism",
    "security.protocol",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
MADE = certificates(["localhost"])
KEY = MADE.key.get_secret_value()
TIMEOUT_S = 60

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
LOGIN = SASL | {"sasl.jaas.config": f'{PLAIN} required username="alice" password="{SECRET}";'}
TLS = {"security.protocol": "SSL"}

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


def _written(folder: Path, properties: dict[str, str] | str) -> Path:
    file = folder / "client.properties"
    text = properties if isinstance(properties, str) else javaproperties.dumps(properties)
    file.write_bytes(text.encode("latin-1"))
    return file


def _refused(folder: Path, properties: dict[str, str] | str) -> str:
    """The text of the error, without the name of the file."""
    file = _written(folder, properties)
    with pytest.raises(UsageError) as caught:
        read_client_properties(file)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert SECRET not in str(caught.value)
    return str(caught.value).removeprefix(f"client properties {file}: ").replace(f"{folder}{os.sep}", "")


def _encrypted_key(made: Certificates, password: str) -> str:
    key = serialization.load_pem_private_key(made.key.get_secret_value().encode(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    ).decode()


def _pkcs12(made: Certificates, password: str | None, *, with_key: bool = True) -> bytes:
    own, authority = x509.load_pem_x509_certificates(made.certificate.encode())
    key = serialization.load_pem_private_key(made.key.get_secret_value().encode(), None)
    encryption: serialization.KeySerializationEncryption = (
        serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password.encode())
    )
    return pkcs12.serialize_key_and_certificates(
        b"me",
        key if with_key else None,  # type: ignore[arg-type]
        own if with_key else None,
        [authority],
        encryption,
    )


def _keytool(*arguments: str | Path) -> None:
    keytool = shutil.which("keytool")
    assert keytool is not None, "a Java runtime brings it"
    subprocess.run([keytool, *arguments], check=True, capture_output=True, timeout=TIMEOUT_S)


def _own(access: Access) -> tuple[list[x509.Certificate], Any]:
    """Chain and public key of the client's own certificate."""
    assert access.certificate is not None
    assert access.key is not None
    key = serialization.load_pem_private_key(access.key.get_secret_value().encode(), None)
    return x509.load_pem_x509_certificates(access.certificate.encode()), key.public_key()


CHAIN = x509.load_pem_x509_certificates(MADE.certificate.encode())


# What clients are given


def test_plaintext_needs_nothing() -> None:
    """What a local cluster gets must be what it got before there was any access."""
    assert (Access().arguments(), Access().properties(), Access().secrets()) == ({}, {}, ())


def test_a_login_becomes_aiokafkas_arguments_and_kafkas_properties() -> None:
    """One access for the load and for Kafka's own tools beside it."""
    access = Access(
        protocol="SASL_PLAINTEXT",
        mechanism="SCRAM-SHA-512",
        username="alice",
        password=SecretStr(SECRET),
        options={"request_timeout_ms": 5000, "client_id": "me"},
    )
    assert access.arguments() == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": SECRET,
        "request_timeout_ms": 5000,
        "client_id": "me",
    }
    assert access.properties() == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} required username="alice" password="{SECRET}";',
        "request.timeout.ms": "5000",
        "client.id": "me",
    }


@pytest.mark.parametrize("check_hostname", [True, False])
def test_certificates_become_a_context_and_pem_stores(*, check_hostname: bool) -> None:
    """No file for either of them: what is in memory cannot be left behind."""
    access = Access(
        protocol="SSL",
        trusted=MADE.authority,
        certificate=MADE.certificate,
        key=MADE.key,
        check_hostname=check_hostname,
    )
    arguments = access.arguments()
    context = arguments.pop("ssl_context")
    assert arguments == {"security_protocol": "SSL"}
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, check_hostname)
    assert context.get_ca_certs(binary_form=True) == [CHAIN[1].public_bytes(serialization.Encoding.DER)]
    assert access.properties() == {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "https" if check_hostname else "",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": MADE.authority,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": MADE.certificate,
        "ssl.keystore.key": KEY,
    }


def test_the_file_of_a_key_is_gone_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL takes a key from a file only."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    Access(protocol="SSL", certificate=MADE.certificate, key=MADE.key).arguments()
    assert list(tmp_path.iterdir()) == []


def test_nothing_that_is_printed_shows_a_secret() -> None:
    """Tracebacks and debug logs print what functions were given, copies of it too."""
    access = Access(
        protocol="SASL_SSL",
        mechanism="PLAIN",
        username="alice",
        password=SecretStr(SECRET),
        trusted=MADE.authority,
        certificate=MADE.certificate,
        key=MADE.key,
    )
    shown = "".join(
        repr(each)
        for each in (access, access.arguments(), access.properties(), dict(access.arguments()), [access.properties()])
    )
    assert "'***'" in shown
    assert [secret for secret in access.secrets() if secret in shown] == []


def test_secrets_are_the_password_the_key_and_each_line_of_it() -> None:
    """What a tool prints may break a key into lines, and escape a password."""
    access = Access(password=SecretStr('pass"word'), key=MADE.key)
    lines = KEY.splitlines()[1:-1]
    assert len(lines) >= 2
    assert set(access.secrets()) == {'pass"word', 'pass\\"word', KEY, *lines}
    assert access.secrets()[0] == KEY


def test_it_goes_to_worker_processes() -> None:
    """A context cannot be pickled; what it is made of can."""
    access = Access(protocol="SSL", trusted=MADE.authority, certificate=MADE.certificate, key=MADE.key)
    again = pickle.loads(pickle.dumps(access))  # noqa: S301 - its own
    assert again == access
    assert isinstance(again.arguments()["ssl_context"], ssl.SSLContext)


def test_every_argument_is_one_of_all_clients() -> None:
    """Producers, consumers, the admin client and the one that waits for readiness get the same."""
    options = {
        "client.id": "me",
        "connections.max.idle.ms": 1,
        "metadata.max.age.ms": 1,
        "request.timeout.ms": 1,
        "retry.backoff.ms": 0,
    }
    given_arguments = read_access(LOGIN | TLS | options | {"security.protocol": "SASL_SSL"}, origin="", folder=Path())
    clients = (
        aiokafka.AIOKafkaProducer,
        aiokafka.AIOKafkaConsumer,
        AIOKafkaAdminClient,
        aiokafka.client.AIOKafkaClient,
    )
    shared = set.intersection(*(set(inspect.signature(client.__init__).parameters) for client in clients))
    assert given_arguments.arguments().keys() <= shared
    assert given_arguments.options == {name.replace(".", "_"): value for name, value in options.items()}


# Client properties


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@given(username=TEXT, password=TEXT)
def test_every_login_comes_back_from_its_properties(
    protocol: Protocol, mechanism: Mechanism, username: str, password: str
) -> None:
    """Quotes, spaces, semicolons, backslashes, line breaks: a password is any text."""
    access = Access(protocol=protocol, mechanism=mechanism, username=username, password=SecretStr(password))
    with tempfile.TemporaryDirectory() as folder:
        assert read_client_properties(_written(Path(folder), access.properties())) == access


@pytest.mark.parametrize(
    ("line", "login"),
    [
        (f'{PLAIN} required username="alice" password="a b;c";', ("alice", "a b;c")),
        (f"{PLAIN} required username='alice' password='it\\'s';", ("alice", "it's")),
        (f'{PLAIN} REQUIRED\n\tpassword="x"username=alice ;', ("alice", "x")),
        (f'{PLAIN} required username = "a\\"b" password = "c\\\\d";', ('a"b', "c\\d")),
        (f'{PLAIN} required username="\\$\\x" password="\\n\\101\\7";', ("$x", "\nA\7")),
        (f'{PLAIN} required username="" password="#//*=";', ("", "#//*=")),
    ],
)
def test_a_login_is_read_as_kafka_reads_it(tmp_path: Path, line: str, login: tuple[str, str]) -> None:
    """A password that is read otherwise is a wrong password. Checked against Java's StreamTokenizer."""
    access = read_client_properties(_written(tmp_path, SASL | {"sasl.jaas.config": line}))
    assert access.password is not None
    assert (access.username, access.password.get_secret_value()) == login


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f'{PLAIN} required username="a" password="{SECRET}"', "does not end with a semicolon; add one"),
        (f'{SECRET} required username="a" password="b";', f"names another login module than {PLAIN} or {SCRAM}"),
        (";", f"names another login module than {PLAIN} or {SCRAM}"),
        (f"{PLAIN};", f"lacks the word 'required' after {PLAIN}"),
        (f'{PLAIN} username="a" password="{SECRET}";', f"lacks the word 'required' after {PLAIN}"),
        (
            f'{SCRAM} required username="a" password="{SECRET}";',
            f"has {SCRAM}, which is for SCRAM-SHA-256 and SCRAM-SHA-512 only",
        ),
        (
            f'{PLAIN} required username="a" password="b" {SECRET}="true";',
            "needs the options username and password, and no others are supported",
        ),
        (f'{PLAIN} required username="a";', "needs the options username and password, and no others are supported"),
        (
            f'{PLAIN} required username="a" password="b"; {PLAIN} optional;',
            "goes on after its semicolon; give one login module",
        ),
    ],
)
def test_a_login_that_cannot_be_says_why_and_shows_nothing(tmp_path: Path, line: str, problem: str) -> None:
    """The text of an error goes into CI's log."""
    assert _refused(tmp_path, SASL | {"sasl.jaas.config": line}) == f"'sasl.jaas.config' {problem}"


@pytest.mark.parametrize("rest", [f"username=a password={SECRET} x", "username==", "username password", "=="])
def test_a_login_without_pairs_says_how_to_write_it(tmp_path: Path, rest: str) -> None:
    """A password with a space and no quotes is the usual one."""
    assert _refused(tmp_path, SASL | {"sasl.jaas.config": f"{PLAIN} required {rest};"}) == (
        "'sasl.jaas.config': after the word 'required' write username=\"...\" password=\"...\";"
    )


@pytest.mark.parametrize("value", ["12", "a/b", "a\\b", '"two\nlines"'])
def test_a_value_that_needs_quotes_says_where(tmp_path: Path, value: str) -> None:
    """Kafka's own error says that there is no value, and not where."""
    start = f"{PLAIN} required username="
    assert _refused(tmp_path, SASL | {"sasl.jaas.config": f'{start}{value} password="{SECRET}";'}).startswith(
        f"'sasl.jaas.config' cannot be read from character {len(start) + (2 if value[0] == 'a' else 1)} on; put values "
        'in double quotes, and write \\" and \\\\ in them for " and \\ (a properties file takes each \\ twice)'
    )


@pytest.mark.parametrize(
    ("properties", "problems"),
    [
        (
            {"security.protocol": "TLS"},
            ["'security.protocol' is 'TLS'; valid are 'PLAINTEXT', 'SASL_PLAINTEXT', 'SASL_SSL', 'SSL'"],
        ),
        (
            {"security.protocol": "SASL_SSL"},
            [
                "'sasl.mechanism' is missing (Kafka's default, GSSAPI, is not supported); "
                "use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
                f'\'sasl.jaas.config\' is missing; give {PLAIN} required username="..." password="...";',
            ],
        ),
        (
            SASL | {"sasl.mechanism": "SCRAM-SHA-256"},
            [f'\'sasl.jaas.config\' is missing; give {SCRAM} required username="..." password="...";'],
        ),
        (
            LOGIN | {"sasl.mechanism": "GSSAPI", "request.timeout.ms": SECRET, "retry.backoff.ms": "-1"},
            [
                "'sasl.mechanism' is 'GSSAPI', which is not supported; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
                "'request.timeout.ms' is not a whole number from 1 to 2147483647",
                "'retry.backoff.ms' is not a whole number from 0 to 2147483647",
            ],
        ),
        (
            LOGIN | {"security.protocol": "SSL"},
            [
                "'sasl.jaas.config', 'sasl.mechanism' have no effect with 'security.protocol' SSL; "
                "use SASL_PLAINTEXT or SASL_SSL, or leave them out"
            ],
        ),
        (
            {"ssl.truststore.location": "absent.pem"},
            [
                "'ssl.truststore.location' has no effect with 'security.protocol' PLAINTEXT; "
                "use SSL or SASL_SSL, or leave it out"
            ],
        ),
        (
            TLS | {"ssl.endpoint.identification.algorithm": SECRET},
            ["'ssl.endpoint.identification.algorithm' is neither https nor empty; use one of them"],
        ),
        (
            TLS | {"ssl.key.password": f"a\0{SECRET}"},
            ["'ssl.key.password' has a NUL or half a surrogate pair in it, which is no text"],
        ),
    ],
)
def test_every_problem_is_named_at_once(tmp_path: Path, properties: dict[str, str], problems: list[str]) -> None:
    """Whoever mends one line must not meet the next one in the next run."""
    assert _refused(tmp_path, properties) == "; ".join(problems)


def test_unsupported_keys_are_named_without_their_values(tmp_path: Path) -> None:
    """They may be secrets; a key that is none may be a line of a private key that was broken without a backslash."""
    text = (
        "# for the tools\n\nacks = 1\nssl.truststore.passwort=hunter2-zq\n"
        "sasl.oauthbearer.token = \\\n  hunter2-zq\nbootstrap.servers=a:1\nMIGHAgEAMBMGByqGSM49==\nhunter2-zq\n"
    )
    assert _refused(tmp_path, text).split("; ") == [
        "'acks' (line 3) is not supported",
        "'ssl.truststore.passwort' (line 4) is not supported: did you mean "
        "'ssl.truststore.password', 'ssl.keystore.password' or 'ssl.truststore.type'?",
        "'sasl.oauthbearer.token' (line 5) is not supported",
        "a key that looks like a part of a broken value (line 8) is not supported",
        "a key that looks like a part of a broken value (line 9) is not supported",
        f"valid are {', '.join(map(repr, VALID))}: leave the others out, and set what is not about access in the "
        "scenario, its producer_config or its consumer_config",
    ]


def test_what_has_no_part_in_access_is_taken_and_left(tmp_path: Path) -> None:
    """The very file that Kafka's tools read serves: with servers, with empty values, with space around them."""
    text = "bootstrap.servers=a:1,b:2\nsecurity.protocol = ssl \nssl.keystore.location=\nclient.id=\n"
    assert read_client_properties(_written(tmp_path, text)) == Access(protocol="SSL")


def test_an_empty_algorithm_checks_no_host_names(tmp_path: Path) -> None:
    """Kafka's way to say so."""
    properties = TLS | {"ssl.endpoint.identification.algorithm": ""}
    assert read_client_properties(_written(tmp_path, properties)) == Access(protocol="SSL", check_hostname=False)


def test_the_file_is_latin_1_as_in_java(tmp_path: Path) -> None:
    """Kafka's tools would send this password, whatever its writer meant."""
    file = _written(tmp_path, LOGIN)
    file.write_bytes(file.read_bytes().replace(SECRET.encode(), b"\xe9\\u20ac"))
    password = read_client_properties(file).password
    assert password is not None
    assert password.get_secret_value() == "é€"


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    """Named in an ini file, it fails far from whoever wrote it."""
    (tmp_path / "utf16").write_text("security.protocol=SSL", encoding="utf-16")
    (tmp_path / "escape").write_text(f"ssl.key.password={SECRET}\\uzzzz")
    (tmp_path / "large").write_bytes(b"#" * ((16 << 20) + 1))
    for name, problem in (
        ("absent", "no such file"),
        (".", "a directory; name a file"),
        ("n" * 1000, os.strerror(36) if sys.platform == "linux" else ""),
        ("utf16", "not a text; name a Java properties file, not a store"),
        ("escape", "a \\u that four hexadecimal digits do not follow; write a backslash as \\\\"),
        ("large", "larger than 16 MiB, which no such file is"),
    ):
        with pytest.raises(UsageError) as caught:
            read_client_properties(tmp_path / name)
        assert str(caught.value).startswith(f"client properties {tmp_path / name}: {problem}")
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


_UNPRIVILEGED = """
import os, sys
from pathlib import Path
import javaproperties
from pytest_kafkaperf.access import read_client_properties
from pytest_kafkaperf.errors import UsageError
if os.geteuid() == 0:
    os.setuid(65534)
try:
    read_client_properties(Path(sys.argv[1]))
except UsageError as error:
    print(error)
"""


@pytest.mark.parametrize("store", [False, True])
def test_a_file_without_permission_says_so(tmp_path: Path, *, store: bool) -> None:
    """Keys are often for one user only; root, who may read everything, steps down first."""
    hidden = tmp_path / "hidden.pem"
    hidden.touch(mode=0)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        file = _written(Path(folder), TLS | {"ssl.truststore.location": str(hidden)}) if store else hidden
        shown = subprocess.run(
            [sys.executable, "-c", _UNPRIVILEGED, file], capture_output=True, text=True, check=True, timeout=TIMEOUT_S
        ).stdout
    expected = f"{file}: 'ssl.truststore.location' {hidden}" if store else f"{hidden}"
    assert shown == f"client properties {expected}: no permission to read it\n"


# Stores


@pytest.mark.parametrize("kind", [{}, {"ssl.truststore.type": "PEM"}, {"ssl.truststore.type": "pem"}])
def test_a_pem_truststore_starts_at_the_folder_of_the_file(tmp_path: Path, kind: dict[str, str]) -> None:
    """The tests run in another folder than the file lies in."""
    (tmp_path / "ca.pem").write_text(f"é subject=whoever\n{MADE.authority}", encoding="utf-8")
    access = read_client_properties(_written(tmp_path, TLS | kind | {"ssl.truststore.location": "ca.pem"}))
    assert access == Access(protocol="SSL", trusted=MADE.authority)


@pytest.mark.parametrize("joint", ["\n", " ", ""])
def test_inline_pem_may_have_any_line_breaks(tmp_path: Path, joint: str) -> None:
    """Properties files fold lines by backslashes, and take the space at their start away."""
    properties = TLS | {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": MADE.authority.replace("\n", joint),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": KEY.replace("\n", joint),
        "ssl.keystore.certificate.chain": MADE.certificate.replace("\n", joint),
    }
    assert read_client_properties(_written(tmp_path, properties)) == Access(
        protocol="SSL", trusted=MADE.authority, certificate=MADE.certificate, key=MADE.key
    )


def test_everything_comes_back_from_its_properties(tmp_path: Path) -> None:
    """Kafka's tools and the load must get in by the same door."""
    access = Access(
        protocol="SASL_SSL",
        mechanism="SCRAM-SHA-256",
        username="alice",
        password=SecretStr(SECRET),
        trusted=MADE.authority,
        certificate=MADE.certificate,
        key=MADE.key,
        check_hostname=False,
        options={"client_id": "me", "retry_backoff_ms": 0},
    )
    assert read_client_properties(_written(tmp_path, access.properties())) == access


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_pem_keystore_has_key_and_chain_in_one_file(tmp_path: Path, *, encrypted: bool) -> None:
    """Kafka asks for encrypted keys in some versions."""
    key = _encrypted_key(MADE, SECRET) if encrypted else KEY
    (tmp_path / "me.pem").write_text(key + MADE.certificate)
    properties = TLS | {"ssl.keystore.type": "PEM", "ssl.keystore.location": "me.pem", "ssl.key.password": SECRET}
    access = read_client_properties(_written(tmp_path, properties))
    assert access == Access(protocol="SSL", certificate=MADE.certificate, key=MADE.key)


@pytest.mark.parametrize("kind", [{}, {"ssl.keystore.type": "JKS"}, {"ssl.keystore.type": "PKCS12"}])
@pytest.mark.parametrize("password", [SECRET, None])
def test_a_pkcs12_keystore_is_known_by_its_content(tmp_path: Path, kind: dict[str, str], password: str | None) -> None:
    """Java's default type is JKS, under which it reads PKCS12, too."""
    (tmp_path / "me.p12").write_bytes(_pkcs12(MADE, password))
    secret = {} if password is None else {"ssl.keystore.password": password}
    access = read_client_properties(_written(tmp_path, TLS | kind | secret | {"ssl.keystore.location": "me.p12"}))
    assert _own(access) == (CHAIN, CHAIN[0].public_key())


def test_stores_of_javas_own_tool_are_read(tmp_path: Path) -> None:
    """A truststore of keytool's has certificates and no key; its keystore keeps chains in its own order."""
    (tmp_path / "ca.pem").write_text(MADE.authority)
    (tmp_path / "me.p12").write_bytes(_pkcs12(MADE, SECRET))
    trust, own = tmp_path / "trust.jks", tmp_path / "own.jks"
    common = ("-noprompt", "-storepass", SECRET)
    _keytool("-importcert", "-keystore", trust, "-alias", "ca", "-file", tmp_path / "ca.pem", *common)
    _keytool(
        "-importkeystore",
        "-srckeystore",
        tmp_path / "me.p12",
        "-srcstorepass",
        SECRET,
        "-destkeystore",
        own,
        "-deststorepass",
        SECRET,
        "-noprompt",
    )
    stores = {
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": SECRET,
        "ssl.keystore.location": str(own),
        "ssl.keystore.password": SECRET,
    }
    access = read_client_properties(_written(tmp_path, TLS | stores))
    assert access.trusted == MADE.authority
    assert _own(access) == (CHAIN, CHAIN[0].public_key())
    assert _refused(tmp_path, TLS | stores | {"ssl.truststore.password": "other"}) == (
        "'ssl.truststore.location' trust.jks has another password than 'ssl.truststore.password', "
        "or is not a PKCS12 store"
    )


def test_a_store_of_javas_old_kind_says_how_to_convert_it(tmp_path: Path) -> None:
    """Java alone reads it."""
    (tmp_path / "ca.pem").write_text(MADE.authority)
    _keytool(
        "-importcert",
        "-keystore",
        tmp_path / "old.jks",
        "-storetype",
        "JKS",
        "-noprompt",
        "-storepass",
        SECRET,
        "-file",
        tmp_path / "ca.pem",
    )
    assert _refused(tmp_path, TLS | {"ssl.truststore.location": "old.jks", "ssl.truststore.password": SECRET}) == (
        "'ssl.truststore.location' old.jks is a store of Java's own old kind (JKS); convert it: keytool "
        "-importkeystore -srckeystore OLD -destkeystore NEW.p12 -deststoretype PKCS12"
    )


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"ssl.truststore.location": "absent.pem"}, "'ssl.truststore.location' absent.pem: no such file"),
        ({"ssl.truststore.location": "folder"}, "'ssl.truststore.location' folder: a directory; name a file"),
        ({"ssl.truststore.location": "text"}, "'ssl.truststore.location' text is neither PEM nor PKCS12"),
        ({"ssl.truststore.location": "empty"}, "'ssl.truststore.location' empty is neither PEM nor PKCS12"),
        (
            {"ssl.truststore.location": "key.pem"},
            "'ssl.truststore.location' key.pem has no certificate in it; put that of the brokers' authority there",
        ),
        (
            {"ssl.truststore.location": "torn.pem"},
            "'ssl.truststore.location' torn.pem has a certificate that cannot be read; export it again",
        ),
        (
            {"ssl.truststore.location": "noise.pem"},
            "'ssl.truststore.location' noise.pem has a CERTIFICATE in it that is not base64; export it again",
        ),
        (
            {"ssl.truststore.location": "me.p12"},
            "'ssl.truststore.location' me.p12 cannot be opened without its password, 'ssl.truststore.password', "
            "or is not a PKCS12 store",
        ),
        (
            {"ssl.keystore.location": "me.p12", "ssl.keystore.password": "other"},
            "'ssl.keystore.location' me.p12 has another password than 'ssl.keystore.password', "
            "or is not a PKCS12 store",
        ),
        (
            {"ssl.keystore.location": "trust.p12", "ssl.keystore.password": SECRET},
            "'ssl.keystore.location' trust.p12 must have a private key and its certificate in it",
        ),
        (
            {"ssl.keystore.location": "key.pem"},
            "'ssl.keystore.location' key.pem must have one private key and its certificate in it",
        ),
        (
            {"ssl.keystore.location": "locked.pem"},
            "'ssl.keystore.location' locked.pem has an encrypted private key; give 'ssl.key.password'",
        ),
        (
            {"ssl.keystore.location": "locked.pem", "ssl.key.password": "other"},
            "'ssl.keystore.location' locked.pem has a private key with another password than 'ssl.key.password', "
            "or one that cannot be read",
        ),
        (
            {"ssl.keystore.location": "foreign.pem"},
            "'ssl.keystore.location' foreign.pem: the certificate that comes first is not that of the private key, "
            "or cannot be read",
        ),
        ({"ssl.keystore.key": KEY}, "'ssl.keystore.certificate.chain' is missing; it goes with 'ssl.keystore.key'"),
        (
            {"ssl.keystore.location": "key.pem", "ssl.keystore.key": KEY},
            "'ssl.keystore.location' and 'ssl.keystore.key' are both given; give one of them",
        ),
        (
            {"ssl.keystore.location": KEY},
            "'ssl.keystore.location' holds PEM text; name a file with it, "
            "or give 'ssl.keystore.key' and 'ssl.keystore.certificate.chain'",
        ),
        (
            {"ssl.truststore.type": "BCFKS", "ssl.truststore.location": "text"},
            "'ssl.truststore.type' is 'BCFKS', which is not supported; use PEM or PKCS12",
        ),
        (
            {"ssl.truststore.password": SECRET},
            "'ssl.truststore.location' is missing; it goes with 'ssl.truststore.password'",
        ),
    ],
)
def test_a_store_that_cannot_be_says_file_and_key(tmp_path: Path, properties: dict[str, str], problem: str) -> None:
    """OpenSSL's own errors name neither."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text(SECRET)
    (tmp_path / "key.pem").write_text(KEY)
    (tmp_path / "torn.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    (tmp_path / "noise.pem").write_text("-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----\n")
    (tmp_path / "locked.pem").write_text(_encrypted_key(MADE, SECRET) + MADE.certificate)
    (tmp_path / "foreign.pem").write_text(KEY + certificates(["localhost"]).certificate)
    (tmp_path / "me.p12").write_bytes(_pkcs12(MADE, SECRET))
    (tmp_path / "trust.p12").write_bytes(_pkcs12(MADE, SECRET, with_key=False))
    text = _refused(tmp_path, TLS | properties)
    assert text == problem
    assert not any(line in text for line in Access(key=MADE.key).secrets())


@given(
    lines=st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "security.protocol", "sasl.mechanism", "sasl.jaas.config", "ssl.truststore.location",
                    "ssl.truststore.certificates", "ssl.keystore.location", "ssl.keystore.key",
                    "ssl.keystore.certificate.chain", "ssl.keystore.password", "ssl.truststore.type",
                    "ssl.key.password", "request.timeout.ms", "client.id", "ssl.cipher.suites", "", "\\u00",
                ]
            ),
            st.one_of(
                st.sampled_from(
                    [
                        "SSL", "SASL_SSL", "SASL_PLAINTEXT", "PLAIN", "SCRAM-SHA-256", "PEM", "JKS", ".", "", "7",
                        LOGIN["sasl.jaas.config"], MADE.authority.replace("\n", " "), "\\ud800", "\\u0000",
                    ]
                ),
                st.text(max_size=40),
            ),
        ),
        max_size=8,
    )
)  # fmt: skip
def test_any_text_is_an_access_or_a_usage_error(lines: list[tuple[str, str]]) -> None:
    """No traceback of ours for a slip in a file of theirs."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "client.properties"
        file.write_bytes("\n".join(f"{name}={value}" for name, value in lines).encode("utf-8", "replace"))
        try:
            access = read_client_properties(file)
        except UsageError as error:
            assert error.__suppress_context__ or error.__context__ is None
        else:
            access.arguments()
            assert read_access(access.properties(), origin="", folder=Path()) == access


@given(
    name=st.sampled_from(
        ["sasl.jaas.config", "ssl.key.password", "ssl.keystore.password", "ssl.keystore.key", "sasl.login.class", "x"]
    ),
    before=st.text(st.sampled_from(f"{PLAIN} required=\"';\\\n\t"), max_size=20) | st.just(f"{PLAIN} required "),
    after=st.text(max_size=20),
    protocol=st.sampled_from(["SSL", "SASL_SSL", "SASL_PLAINTEXT", "PLAINTEXT"]),
)
def test_no_error_shows_a_secret(name: str, before: str, after: str, protocol: str) -> None:
    """However the line is broken that it stands in."""
    text = f"security.protocol={protocol}\nsasl.mechanism=PLAIN\n{name}={before}{SECRET}{after}\n"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "client.properties"
        file.write_bytes(text.encode("utf-8", "replace"))
        try:
            read_client_properties(file)
        except UsageError as error:
            assert SECRET not in str(error)


# What fixtures give


@pytest.mark.parametrize(
    "arguments",
    [
        LOGIN | {"request.timeout.ms": 5000},
        {
            "bootstrap_servers": "a:1",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "alice",
            "sasl_plain_password": SecretStr(SECRET),
            "request_timeout_ms": 5000,
            "ssl_context": None,
        },
        {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_plain_username": "alice",
            "sasl_plain_password": SECRET,
            "request.timeout.ms": "5000",
        },
    ],
)
def test_fixtures_give_either_spelling(arguments: dict[str, object]) -> None:
    """An application's own tests have one of them at hand already; PLAIN is aiokafka's default."""
    assert read_access(arguments, origin="client_config", folder=Path()) == Access(
        protocol="SASL_PLAINTEXT",
        mechanism="PLAIN",
        username="alice",
        password=SecretStr(SECRET),
        options={"request_timeout_ms": 5000},
    )


@given(username=TEXT, password=TEXT)
def test_any_login_of_a_fixture_is_kept_as_it_is(username: str, password: str) -> None:
    """An empty password, or one with quotes in it, is one."""
    arguments = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": username,
        "sasl_plain_password": password,
    }
    assert read_access(arguments, origin="client_config", folder=Path()).arguments() == arguments


def test_fixtures_give_paths_that_start_at_the_folder(tmp_path: Path) -> None:
    """A fixture makes its certificates in a folder of its own."""
    (tmp_path / "ca.pem").write_text(MADE.authority)
    for location in (tmp_path / "ca.pem", "ca.pem"):
        arguments = {"security_protocol": "SSL", "ssl.truststore.location": location}
        access = read_access(arguments, origin="client_config", folder=tmp_path)
        assert access == Access(protocol="SSL", trusted=MADE.authority)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            {"security_protocol": "SSL", "ssl_context": ssl.create_default_context()},
            "'ssl_context' cannot be handed to worker processes; give 'ssl.truststore.location' instead, and "
            "'ssl.keystore.location' for a certificate of the client's own "
            "('ssl.endpoint.identification.algorithm': '' checks no host names)",
        ),
        (
            LOGIN | {"sasl_plain_username": "a", "sasl_plain_password": SECRET},
            "'sasl_plain_username' and 'sasl.jaas.config' are one parameter; give one of them",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_plain_password": SECRET},
            "'sasl_plain_username' is missing; give both user name and password",
        ),
        (
            {"sasl_plain_username": "a", "sasl_plain_password": SECRET},
            "'sasl_plain_username' and 'sasl_plain_password' need 'security_protocol' SASL_PLAINTEXT or SASL_SSL",
        ),
        ({"security_protocol": "SSL", "security.protocol": "SSL"}, "'security.protocol' is given in two spellings"),
        ({"client_id": True}, "'client_id' is a bool; give a text or a whole number"),
        ({"sasl_plain_password": SECRET.encode()}, "'sasl_plain_password' is a bytes; give a text or a whole number"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_plain_username": "a",
             "sasl_plain_password": SECRET},
            "'sasl.mechanism' is 'OAUTHBEARER', which is not supported; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
    ],
)  # fmt: skip
def test_what_a_fixture_cannot_give_says_what_to_give(arguments: dict[str, object], problem: str) -> None:
    """The error must name the fixture's own words, and no secret."""
    with pytest.raises(UsageError) as caught:
        read_access(arguments, origin="client_config", folder=Path())
    assert str(caught.value).removesuffix("; give one of them") == f"client_config: {problem}".removesuffix(
        "; give one of them"
    )
    assert SECRET not in str(caught.value)


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    """A plain cluster pays neither for TLS nor for a parser."""
    script = (
        "import sys, pytest_kafkaperf.access as access; before = set(sys.modules); access.Access().arguments(); "
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'aiokafka', 'cryptography', 'javaproperties'}))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=TIMEOUT_S
    )
    assert shown.stdout == "[]\n"

"""Files of Kafka's own tools: what they say, what they may not say, and no secret in any error."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.access import Access, Protocol
from pytest_kafkaperf.clusters.access.client_properties import read_access, read_client_properties
from pytest_kafkaperf.clusters.access.logins import Mechanism, Plain, password_login
from pytest_kafkaperf.core.errors import UsageError
from tests.support.access_properties import properties_of
from tests.support.client_files import (
    KERBEROS,
    LOGIN,
    MADE,
    OAUTH,
    PLAIN,
    SASL,
    SCRAM,
    SECRET,
    TEXT,
    TIMEOUT_S,
    TLS,
    refused,
    written,
)

VALID = (
    "bootstrap.servers",
    "client.id",
    "connections.max.idle.ms",
    "metadata.max.age.ms",
    "request.timeout.ms",
    "retry.backoff.ms",
    "sasl.client.callback.handler.class",
    "sasl.jaas.config",
    "sasl.kerberos.service.name",
    "sasl.login.callback.handler.class",
    "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
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


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@given(username=TEXT, password=TEXT)
def test_every_login_comes_back_from_its_properties(
    protocol: Protocol, mechanism: Mechanism, username: str, password: str
) -> None:
    """Quotes, spaces, semicolons, backslashes, line breaks: a password is any text."""
    access = Access(protocol=protocol, login=password_login(mechanism, username, password))
    with tempfile.TemporaryDirectory() as folder:
        assert read_client_properties(written(Path(folder), properties_of(access))) == access


@pytest.mark.parametrize(
    ("line", "login"),
    [
        (f'{PLAIN} required username="alice" password="a b;c";', ("alice", "a b;c")),
        (f"{PLAIN} required username='alice' password='a \"';", ("alice", 'a "')),
        (f'{PLAIN} REQUIRED\n\tpassword="x"username=alice ;', ("alice", "x")),
        (f'{PLAIN} required username = "a\\"b" password = "c\\\\d";', ('a"b', "c\\d")),
        (f'{PLAIN} required username="" password="#//*=";', ("", "#//*=")),
    ],
)
def test_a_login_is_read_as_kafka_reads_it(tmp_path: Path, line: str, login: tuple[str, str]) -> None:
    """A password that is read otherwise is a wrong password. Checked against Java's StreamTokenizer."""
    access = read_client_properties(written(tmp_path, SASL | {"sasl.jaas.config": line}))
    username, password = login
    assert access.login == Plain(username=username, password=SecretStr(password))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            f'{SECRET} required username="a" password="b";',
            f"contains an unsupported login module; use {PLAIN}, {SCRAM}, {OAUTH} or {KERBEROS}",
        ),
        (";", f"contains an unsupported login module; use {PLAIN}, {SCRAM}, {OAUTH} or {KERBEROS}"),
        (
            f'{SCRAM} required username="a" password="{SECRET}";',
            f"uses {SCRAM}, which supports only SCRAM-SHA-256 and SCRAM-SHA-512",
        ),
    ],
)
def test_a_login_that_cannot_be_says_why_and_shows_nothing(tmp_path: Path, line: str, problem: str) -> None:
    """The text of an error goes into CI's log."""
    assert refused(tmp_path, SASL | {"sasl.jaas.config": line}) == f"'sasl.jaas.config' {problem}"


@pytest.mark.parametrize(
    "line",
    [
        f'{PLAIN} required username="a" password="{SECRET}"',
        f"{PLAIN};",
        f'{PLAIN} username="a" password="{SECRET}";',
        f'{PLAIN} required username="a" password="b" {SECRET}="true";',
        f'{PLAIN} required username="a";',
        f'{PLAIN} required username="a" password="b"; {PLAIN} optional;',
        f"{PLAIN} required username=a password={SECRET} x;",
        f"{PLAIN} required username=apassword={SECRET};",
        f"{PLAIN} required username==;",
        f'{PLAIN} required username=12 password="{SECRET}";',
        f'{PLAIN} required username=a/b password="{SECRET}";',
        f'{PLAIN} required username="a\\b" password="{SECRET}";',
    ],
)
def test_a_login_that_cannot_be_read_says_how_to_write_it(tmp_path: Path, line: str) -> None:
    """Kafka's own error says that there is no value. Its escapes such as `\\b` are read otherwise than they look."""
    assert refused(tmp_path, SASL | {"sasl.jaas.config": line}) == (
        f'\'sasl.jaas.config\' cannot be read; write {PLAIN} required username="..." password="..."; with \\" and \\\\ '
        'for " and \\ in the values (in a properties file, write each \\ twice)'
    )


@pytest.mark.parametrize(
    ("properties", "problems"),
    [
        (
            {"security.protocol": "TLS"},
            ["'security.protocol' is 'TLS'; expected one of 'PLAINTEXT', 'SASL_PLAINTEXT', 'SASL_SSL', 'SSL'"],
        ),
        (
            {"security.protocol": "SASL_SSL"},
            [
                "'sasl.mechanism' is missing; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI, "
                "AWS_MSK_IAM",
                f'\'sasl.jaas.config\' is missing; give {PLAIN} required username="..." password="...";',
            ],
        ),
        (
            SASL | {"sasl.mechanism": "SCRAM-SHA-256"},
            [f'\'sasl.jaas.config\' is missing; give {SCRAM} required username="..." password="...";'],
        ),
        (
            LOGIN | {"sasl.mechanism": "NTLM", "request.timeout.ms": SECRET, "retry.backoff.ms": "-1"},
            [
                "'sasl.mechanism' is 'NTLM', which is not supported; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, "
                "OAUTHBEARER, GSSAPI, AWS_MSK_IAM",
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
            ["'ssl.endpoint.identification.algorithm' must be 'https' or empty"],
        ),
        (
            TLS | {"ssl.key.password": f"a\0{SECRET}"},
            ["'ssl.key.password' contains a NUL or an unpaired surrogate; give valid text"],
        ),
    ],
)
def test_every_problem_is_named_at_once(tmp_path: Path, properties: dict[str, str], problems: list[str]) -> None:
    """Whoever fixes one line must not meet the next one in the next run."""
    assert refused(tmp_path, properties) == "; ".join(problems)


def test_unsupported_keys_are_named_without_their_values(tmp_path: Path) -> None:
    """They may be secrets; a key that is none may be a line of a private key that was broken without a backslash."""
    text = (
        "# for the tools\n\nacks = 1\nssl.truststore.passwort=hunter2-zq\n"
        "sasl.oauthbearer.token = \\\n  hunter2-zq\nbootstrap.servers=a:1\nMIGHAgEAMBMGByqGSM49==\nhunter2-zq\n"
    )
    assert refused(tmp_path, text).split("; ") == [
        "'acks' (line 3) is not supported",
        "'ssl.truststore.passwort' (line 4) is not supported: did you mean "
        "'ssl.truststore.password', 'ssl.keystore.password' or 'ssl.truststore.type'?",
        "'sasl.oauthbearer.token' (line 5) is not supported: did you mean 'sasl.oauthbearer.scope', "
        "'sasl.oauthbearer.token.endpoint.url' or 'sasl.oauthbearer.header.urlencode'?",
        "a key that looks like part of a broken value (line 8) is not supported",
        "a key that looks like part of a broken value (line 9) is not supported",
        f"valid names are {', '.join(map(repr, VALID))}: remove the others, and set producer and consumer "
        "options in the scenario, its producer_config or its consumer_config",
    ]


def test_of_many_unsupported_keys_some_are_named(tmp_path: Path) -> None:
    """The file may be any other: nobody reads a thousand lines of an error."""
    text = "".join(f"some.name{number}=x\n" for number in range(1000))
    problems = refused(tmp_path, text).split("; ")
    assert problems[19:21] == ["'some.name19' (line 20) is not supported", "980 more are not supported"]
    assert len(problems) == 22


def test_what_has_no_part_in_access_is_taken_and_left(tmp_path: Path) -> None:
    """The very file that Kafka's tools read serves: with servers, with empty values, with space around them."""
    text = "bootstrap.servers=a:1,b:2\nsecurity.protocol = ssl \nssl.keystore.location=\nclient.id=\n"
    assert read_client_properties(written(tmp_path, text)) == Access(protocol="SSL")


def test_an_empty_algorithm_checks_no_host_names(tmp_path: Path) -> None:
    """Kafka's way to say so."""
    properties = TLS | {"ssl.endpoint.identification.algorithm": ""}
    assert read_client_properties(written(tmp_path, properties)) == Access(protocol="SSL", check_hostname=False)


def test_the_file_is_latin_1_as_in_java(tmp_path: Path) -> None:
    """Kafka's tools would send this password, whatever its writer meant."""
    file = written(tmp_path, LOGIN)
    file.write_bytes(file.read_bytes().replace(SECRET.encode(), b"\xe9\\u20ac"))
    assert read_client_properties(file).login == Plain(username="alice", password=SecretStr("é€"))


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    """Named in an ini file, it fails far from whoever wrote it."""
    (tmp_path / "utf16").write_text("security.protocol=SSL", encoding="utf-16")
    (tmp_path / "escape").write_text(f"ssl.key.password={SECRET}\\uzzzz")
    for name, problem in (
        ("absent", "No such file or directory; give the path of a readable file"),
        (".", "Is a directory; give the path of a readable file"),
        ("n" * 1000, os.strerror(36) if sys.platform == "linux" else ""),
        ("utf16", "not a text file; give a Java properties file, not a keystore"),
        ("escape", "\\u must be followed by four hexadecimal digits; write a backslash as \\\\"),
    ):
        with pytest.raises(UsageError) as caught:
            read_client_properties(tmp_path / name)
        assert str(caught.value).startswith(f"client properties {tmp_path / name}: {problem}")
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


_UNPRIVILEGED = """
import os, sys
from pathlib import Path
import javaproperties
import pytest_kafkaperf.clusters.access.stores  # now: this checkout may be readable for root only
from pytest_kafkaperf.clusters.access.client_properties import read_client_properties
from pytest_kafkaperf.core.errors import UsageError
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
        file = written(Path(folder), TLS | {"ssl.truststore.location": str(hidden)}) if store else hidden
        shown = subprocess.run(
            [sys.executable, "-c", _UNPRIVILEGED, file], capture_output=True, text=True, check=True, timeout=TIMEOUT_S
        ).stdout
    expected = f"{file}: 'ssl.truststore.location' {hidden}" if store else f"{hidden}"
    assert shown == f"client properties {expected}: Permission denied; give the path of a readable file\n"


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
            assert read_access(properties_of(access), origin="", folder=Path()) == access


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

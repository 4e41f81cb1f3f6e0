"""How clients get into a cluster: protocol, login and certificates, as a file or a fixture names them.

The names are those of Kafka's own clients, so that the file that its tools take by `--command-config` serves here,
too. What they would read differently, or what would have no effect, is refused and not guessed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args

from pydantic import SecretStr

from pytest_kafkaperf.errors import UsageError, nearest

if TYPE_CHECKING:
    import ssl

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from javaproperties import PropertiesElement

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

_T = TypeVar("_T")

_MAX_FILE_BYTES = 16 << 20
"""A hundred times the certificates of all public authorities."""
_MAX_INT = (1 << 31) - 1
_LEAST_SECRET_LINE = 16
"""Characters of a line of a key: a shorter one tells nothing, and stands in other texts by chance."""

_NUMBERS = {
    "connections.max.idle.ms": 1,
    "metadata.max.age.ms": 1,
    "request.timeout.ms": 1,
    "retry.backoff.ms": 0,
}
"""Further settings that all of aiokafka's clients have, and the least that each can be."""
_OPTIONS = ("client.id", *_NUMBERS)
_LOGIN = ("sasl.jaas.config", "sasl.mechanism")
_KEYSTORE_INLINE = ("ssl.keystore.key", "ssl.keystore.certificate.chain")
_STORES = (
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
_HOSTNAME = "ssl.endpoint.identification.algorithm"
_SERVERS = "bootstrap.servers"
"""Accepted, as files name them, and unused: the servers are those of --kafka-cluster."""
_NAMES = tuple(sorted(("security.protocol", _HOSTNAME, _SERVERS, *_LOGIN, *_STORES, *_OPTIONS)))

_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
}
"""Login module, and the mechanisms that it is for."""
_CONTROL_FLAGS = ("required", "requisite", "sufficient", "optional")

_SHORT_NAMES = ("acks", "retries")
"""Names of Kafka's without a dot: other words may be part of a secret whose line was broken."""

_JAVA_SPACE = "".join(map(chr, range(33)))
"""What Java's trim() takes off; Kafka trims every value."""


class _Secret(str):
    """A text that no repr shows, nor that of a mapping with it in it: tracebacks print those."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def _without_logins(record: logging.LogRecord) -> bool:
    """Take what a client logs in with out of a line of aiokafka's log: PLAIN sends the password as it is."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            f"{type(each).__name__}(***)" if type(each).__name__.startswith("SaslAuthenticateRequest") else each
            for each in record.args
        )
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How clients get in; valid, and the same in every process."""

    protocol: Protocol = "PLAINTEXT"
    mechanism: Mechanism | None = None
    username: str | None = None
    password: SecretStr | None = None
    trusted: str | None = field(default=None, repr=False)
    """Certificates of authorities, PEM; None: those that the system trusts."""
    certificate: str | None = field(default=None, repr=False)
    """The client's own certificate and those that lead to its authority, PEM."""
    key: SecretStr | None = None
    """Its private key, PEM, not encrypted."""
    check_hostname: bool = True
    options: Mapping[str, int | str] = field(default_factory=dict)
    """Further arguments of aiokafka's clients."""

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for aiokafka's clients; a repr of them shows no secret."""
        given: dict[str, Any] = {} if self.protocol == "PLAINTEXT" else {"security_protocol": self.protocol}
        if self._uses_tls:
            given["ssl_context"] = _context(
                self.trusted, self.certificate, _revealed(self.key), check_hostname=self.check_hostname
            )
        if self._uses_login:
            logging.getLogger("aiokafka.conn").addFilter(_without_logins)
            given["sasl_mechanism"] = self.mechanism
            given["sasl_plain_username"] = self.username
            given["sasl_plain_password"] = _Secret(_revealed(self.password) or "")
        return given | dict(self.options)

    def properties(self) -> dict[str, str]:
        """The same as properties for Kafka's own tools; a repr of them shows no secret."""
        given: dict[str, str] = {} if self.protocol == "PLAINTEXT" else {"security.protocol": self.protocol}
        if self._uses_tls:
            given[_HOSTNAME] = "https" if self.check_hostname else ""
            if self.trusted is not None:
                given |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.trusted}
            if self.certificate is not None and self.key is not None:
                given |= {
                    "ssl.keystore.type": "PEM",
                    "ssl.keystore.certificate.chain": self.certificate,
                    "ssl.keystore.key": _Secret(self.key.get_secret_value()),
                }
        if self._uses_login and self.mechanism is not None:
            given["sasl.mechanism"] = self.mechanism
            given["sasl.jaas.config"] = _Secret(
                _jaas(self.mechanism, self.username or "", _revealed(self.password) or "")
            )
        return given | {name.replace("_", "."): str(value) for name, value in self.options.items()}

    def secrets(self) -> tuple[str, ...]:
        """Texts that must never be shown, the longest first."""
        password, key = _revealed(self.password), _revealed(self.key)
        found = set()
        if password:
            found |= {password, _escaped(password)}
        if key:
            lines = (line for line in key.splitlines() if not line.startswith("-----"))
            found |= {key, *(line for line in lines if len(line) >= _LEAST_SECRET_LINE)}
        return tuple(sorted(found, key=lambda text: (-len(text), text)))

    @property
    def _uses_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def _uses_login(self) -> bool:
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")


def read_client_properties(path: Path) -> Access:
    """Read the file that Kafka's own tools take by `--command-config`.

    Raises:
        UsageError: a file that cannot be read or that asks for what cannot be; every problem in one text.

    """
    problem = ""
    try:
        return _read_file(path)
    except UsageError as error:
        problem = str(error)
    raise UsageError(problem)  # anew: a traceback through the reading would show what was read


def _read_file(path: Path) -> Access:
    import javaproperties  # noqa: PLC0415 - only where a file is given

    try:
        text = _content(path).decode("latin-1")  # as Java reads it: any bytes are text
    except UsageError as error:
        raise UsageError(f"client properties {error}") from None
    if "\0" in text:
        raise UsageError(f"client properties {path}: not a text; name a Java properties file, not a store")
    try:
        given = {
            entry.key: (entry.value, f"line {number}")
            for number, entry in _numbered(javaproperties.parse(text))
            if isinstance(entry, javaproperties.KeyValue)
        }
    except javaproperties.InvalidUEscapeError:
        raise UsageError(
            f"client properties {path}: a \\u that four hexadecimal digits do not follow; write a backslash as \\\\"
        ) from None
    return _read(given, origin=f"client properties {path}", folder=path.parent)


def read_access(given: Mapping[str, object], *, origin: str, folder: Path) -> Access:
    """Read what an application's own fixture gives: aiokafka's keyword arguments, or Kafka's names with dots.

    Args:
        given: names and values.
        origin: who gives them, for errors.
        folder: where relative paths start.

    Raises:
        UsageError: what cannot be; every problem in one text.

    """
    problem = ""
    try:
        return _read_mapping(given, origin=origin, folder=folder)
    except UsageError as error:
        problem = str(error)
    del given
    raise UsageError(problem)  # as above


def _read_mapping(given: Mapping[str, object], *, origin: str, folder: Path) -> Access:
    problems: list[str] = []
    named = {name: value for name, value in given.items() if value is not None}
    if named.pop("ssl_context", None) is not None:
        problems.append(
            "'ssl_context' cannot be handed to worker processes; give 'ssl.truststore.location' instead, and "
            f"'ssl.keystore.location' for a certificate of the client's own ('{_HOSTNAME}': '' checks no host names)"
        )
    texts: dict[str, str] = {}
    for name, value in named.items():
        text = _text(value)
        spelt = _spelt(name)
        if text is None:
            problems.append(f"{_shown(name)} is a {type(value).__name__}; give a text or a whole number")
        elif spelt in texts:
            problems.append(f"{_shown(spelt)} is given in two spellings; give one of them")
        else:
            texts[spelt] = text
    problems += _fold_login(texts)
    return _read(
        {name: (text, "") for name, text in texts.items()}, origin=origin, folder=folder, already=tuple(problems)
    )


def _content(path: Path) -> bytes:
    """All of a file.

    Raises:
        UsageError: why it cannot be read.

    """
    try:
        if path.is_dir():
            raise UsageError(f"{path}: a directory; name a file")
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except PermissionError:
        raise UsageError(f"{path}: no permission to read it") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if len(content) > _MAX_FILE_BYTES:
        raise UsageError(f"{path}: larger than {_MAX_FILE_BYTES >> 20} MiB, which no such file is")
    return content


def _numbered(elements: Iterator[PropertiesElement]) -> Iterator[tuple[int, PropertiesElement]]:
    """Elements of a properties file with the line that each begins on."""
    number = 1
    for element in elements:
        yield number, element
        number += len(re.findall(r"\r\n|\r|\n", element.source))


def _spelt(name: str) -> str:
    """The name with dots of a parameter in aiokafka's spelling."""
    dotted = name.replace("_", ".")
    return dotted if dotted in _NAMES else name


def _text(value: object) -> str | None:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value)
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None


def _fold_login(texts: dict[str, str]) -> Iterator[str]:
    """Put aiokafka's user name and password into one `sasl.jaas.config`; give the problems of them."""
    username, password = texts.pop("sasl_plain_username", None), texts.pop("sasl_plain_password", None)
    if username is None and password is None:
        return
    if not texts.get("security.protocol", "").upper().startswith("SASL_"):
        yield "'sasl_plain_username' and 'sasl_plain_password' need 'security_protocol' SASL_PLAINTEXT or SASL_SSL"
        return
    if username is None or password is None:
        missing = "sasl_plain_username" if username is None else "sasl_plain_password"
        yield f"'{missing}' is missing; give both user name and password"
    elif "sasl.jaas.config" in texts:
        yield "'sasl_plain_username' and 'sasl.jaas.config' are one parameter; give one of them"
    mechanism = texts.setdefault("sasl.mechanism", "PLAIN")  # aiokafka's default, not Kafka's
    # with a part missing, which is told already, a whole line keeps the reader from telling it again
    texts.setdefault("sasl.jaas.config", _jaas(mechanism, username or "", password or ""))


def _read(given: Mapping[str, tuple[str, str]], *, origin: str, folder: Path, already: tuple[str, ...] = ()) -> Access:
    """Read names and values; each value with the place that it stands at, which may be empty."""
    values = {name: value.strip(_JAVA_SPACE) for name, (value, _) in given.items() if name in _NAMES}
    problems = [*already, *_unknown({name: place for name, (_, place) in given.items()}), *_unreadable(values)]
    # an empty text is none, but for the one setting that means something by it
    values = {name: value for name, value in values.items() if (value or name == _HOSTNAME) and _is_text(value)}

    def part(read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except UsageError as error:
            problems.append(str(error))
            return None

    protocol = part(lambda: _protocol(values))
    if protocol is not None:
        problems += _without_effect(values, protocol)
    login = tls = None
    if protocol.startswith("SASL_") if protocol else any(name in values for name in _LOGIN):
        login = part(lambda: _login(values, part(lambda: _mechanism(values))))
    hostname = part(lambda: _checks_hostname(values))
    if protocol is None or protocol.endswith("SSL"):
        tls = part(lambda: _trusted(values, folder)), part(lambda: _own(values, folder))
    options = _options(values, problems)
    if problems:
        raise UsageError(f"{origin}: {'; '.join(problems)}")
    trusted, own = tls or (None, None)
    return Access(
        protocol=cast("Protocol", protocol),
        mechanism=cast("Mechanism", values["sasl.mechanism"]) if login else None,
        username=login[0] if login else None,
        password=SecretStr(login[1]) if login else None,
        trusted=trusted,
        certificate=own[0] if own else None,
        key=SecretStr(own[1]) if own else None,
        check_hostname=tls is None or hostname is not False,
        options=options,
    )


def _unknown(places: Mapping[str, str]) -> Iterator[str]:
    unknown = [name for name in places if name not in _NAMES]
    if not unknown:
        return
    hints = [nearest(name, _NAMES) if _is_name(name) else "" for name in unknown]
    for name, hint in zip(unknown, hints, strict=True):
        near = f": {hint}" if hint.startswith("did you mean") else ""
        yield f"{_shown(name, places[name])} is not supported{near}"
    yield (
        f"valid are {', '.join(map(repr, _NAMES))}: leave the others out, and set what is not about access in the "
        "scenario, its producer_config or its consumer_config"
    )


def _shown(name: str, place: str = "") -> str:
    """A name in an error; what may be a piece of a broken secret is named by its place only."""
    at = f" ({place})" if place else ""
    return f"{name!r}{at}" if _is_name(name) else f"a key that looks like a part of a broken value{at}"


def _is_name(name: str) -> bool:
    return name in _SHORT_NAMES or re.fullmatch(r"[a-z]{1,24}([._][a-z0-9]{1,24}){1,8}", name) is not None


def _unreadable(values: Mapping[str, str]) -> Iterator[str]:
    for name, value in values.items():
        if not _is_text(value):
            yield f"{name!r} has a NUL or half a surrogate pair in it, which is no text"


def _is_text(value: str) -> bool:
    return re.search("[\0\ud800-\udfff]", value) is None


def _protocol(values: Mapping[str, str]) -> Protocol:
    given = values.get("security.protocol", "PLAINTEXT")
    if given.upper() not in get_args(Protocol):
        raise UsageError(f"'security.protocol' is {given!r}; {nearest(given.upper(), get_args(Protocol))}")
    return cast("Protocol", given.upper())


def _without_effect(values: Mapping[str, str], protocol: Protocol) -> Iterator[str]:
    """Settings of a login or of certificates that the protocol does not use: one of the two is not meant."""
    for names, suited, mark in (
        (_LOGIN, "SASL_PLAINTEXT or SASL_SSL", protocol.startswith("SASL_")),
        (_STORES, "SSL or SASL_SSL", protocol.endswith("SSL")),
    ):
        idle = [repr(name) for name in names if name in values and not mark]
        if idle:
            yield (
                f"{', '.join(idle)} {'has' if len(idle) == 1 else 'have'} no effect with 'security.protocol' "
                f"{protocol}; use {suited}, or leave {'it' if len(idle) == 1 else 'them'} out"
            )


def _mechanism(values: Mapping[str, str]) -> Mechanism:
    given = values.get("sasl.mechanism")
    valid = ", ".join(get_args(Mechanism))
    if given is None:
        raise UsageError(f"'sasl.mechanism' is missing (Kafka's default, GSSAPI, is not supported); use {valid}")
    if given not in get_args(Mechanism):
        raise UsageError(f"'sasl.mechanism' is {given!r}, which is not supported; use {valid}")
    return cast("Mechanism", given)


def _login(values: Mapping[str, str], mechanism: Mechanism | None) -> tuple[str, str] | None:
    """User name and password of `sasl.jaas.config`, read as Kafka does; no text of it is ever shown.

    None where the mechanism, whose problem is told already, leaves open what to expect.
    """
    if "sasl.mechanism" in values and mechanism is None:
        return None
    given = values.get("sasl.jaas.config")
    if given is None:
        raise UsageError(f"'sasl.jaas.config' is missing; give {_jaas(mechanism or 'PLAIN', '...', '...')}")
    module, flag, *pairs = (*_jaas_tokens(given), None, None)
    if module not in _MODULES:
        raise UsageError(f"'sasl.jaas.config' names another login module than {' or '.join(_MODULES)}")
    if mechanism is not None and mechanism not in _MODULES[module]:
        raise UsageError(f"'sasl.jaas.config' has {module}, which is for {' and '.join(_MODULES[module])} only")
    if flag is None or flag.lower() not in _CONTROL_FLAGS:
        raise UsageError(f"'sasl.jaas.config' lacks the word 'required' after {module}")
    del pairs[-2:]
    names, equals, texts = pairs[::3], pairs[1::3], pairs[2::3]
    options = {name: text for name, text in zip(names, texts, strict=False) if name is not None and text is not None}
    if len(pairs) % 3 or None in (*names, *texts) or any(sign is not None for sign in equals):
        raise UsageError("'sasl.jaas.config': after the word 'required' write username=\"...\" password=\"...\";")
    if options.keys() != {"username", "password"}:
        raise UsageError("'sasl.jaas.config' needs the options username and password, and no others are supported")
    return options["username"], options["password"]


_JAAS_TOKEN = re.compile(
    r"""
    [\0-\ ]*
    (?: (?P<quoted> "(?:[^"\\\r\n]|\\[^\r\n])*" | '(?:[^'\\\r\n]|\\[^\r\n])*' )
      | (?P<word> (?:[^\W\d]|\$) [\w.$-]* )
      | (?P<mark> [=;] ) )
    """,
    re.VERBOSE,
)
"""As Java's StreamTokenizer, which Kafka reads the line with."""
_JAAS_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_JAAS_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _jaas_tokens(line: str) -> list[str | None]:
    """Words and texts without their quotes, up to the semicolon; an equals sign is None."""
    tokens: list[str | None] = []
    at = 0
    while match := _JAAS_TOKEN.match(line, at):
        at = match.end()
        if match["mark"] == ";":
            break
        quoted = match["quoted"]
        tokens.append(match["word"] if quoted is None else _JAAS_ESCAPE.sub(_unescaped, quoted[1:-1]))
    else:
        if line[at:].strip(_JAVA_SPACE):
            raise UsageError(
                f"'sasl.jaas.config' cannot be read from character {at + 1} on; put values in double quotes, "
                'and write \\" and \\\\ in them for " and \\ (a properties file takes each \\ twice)'
            )
        raise UsageError("'sasl.jaas.config' does not end with a semicolon; add one")
    if line[at:].strip(_JAVA_SPACE):
        raise UsageError("'sasl.jaas.config' goes on after its semicolon; give one login module")
    return tokens


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _JAAS_CONTROLS.get(code, code)


def _escaped(text: str) -> str:
    """The text as it stands between quotes in a `sasl.jaas.config`."""
    return re.sub(
        r'[\0-\x1f"\\]', lambda match: f"\\{match[0]}" if match[0] in '"\\' else f"\\{ord(match[0]):03o}", text
    )


def _jaas(mechanism: str, username: str, password: str) -> str:
    module = next((module for module, suited in _MODULES.items() if mechanism in suited), next(iter(_MODULES)))
    return f'{module} required username="{_escaped(username)}" password="{_escaped(password)}";'


def _checks_hostname(values: Mapping[str, str]) -> bool:
    given = values.get(_HOSTNAME, "https").lower()
    if given not in ("", "https"):
        raise UsageError(f"'{_HOSTNAME}' is neither https nor empty; use one of them")
    return given == "https"


def _options(values: Mapping[str, str], problems: list[str]) -> dict[str, int | str]:
    options: dict[str, int | str] = {}
    for name in _OPTIONS:
        value = values.get(name)
        if value is None:
            continue
        least = _NUMBERS.get(name)
        if least is None:
            options[name.replace(".", "_")] = value
        elif re.fullmatch(r"[0-9]{1,10}", value) and least <= int(value) <= _MAX_INT:
            options[name.replace(".", "_")] = int(value)
        else:
            problems.append(f"{name!r} is not a whole number from {least} to {_MAX_INT}")
    return options


def _trusted(values: Mapping[str, str], folder: Path) -> str | None:
    """Certificates of authorities; None where no truststore is named."""
    store = _store(values, folder, "truststore", inline=("ssl.truststore.certificates",))
    if store is None:
        return None
    where, content = store
    if isinstance(content, str):
        found = "".join(pem for label, pem in _blocks(content, where) if label == "CERTIFICATE")
    else:
        found = "".join(_pem(certificate) for certificate in _open_pkcs12(content, where, values, "truststore")[1])
    if not found:
        raise UsageError(f"{where} has no certificate in it; put that of the brokers' authority there")
    if not _fits(lambda: _context(found, None, None)):
        raise UsageError(f"{where} has a certificate that cannot be read; export it again")
    return found


def _own(values: Mapping[str, str], folder: Path) -> tuple[str, str] | None:
    """The client's own certificate chain and private key; None where no keystore is named."""
    store = _store(values, folder, "keystore", inline=_KEYSTORE_INLINE)
    if store is None:
        return None
    where, content = store
    if isinstance(content, str):
        blocks = list(_blocks(content, where))
        chain = "".join(pem for label, pem in blocks if label == "CERTIFICATE")
        keys = [pem for label, pem in blocks if label.endswith("PRIVATE KEY")]
        if not chain or len(keys) != 1:
            raise UsageError(f"{where} must have one private key and its certificate in it")
        key = _private_key(keys[0], values.get("ssl.key.password"), where)
    else:
        found, certificates = _open_pkcs12(content, where, values, "keystore")
        chain = "".join(_pem(certificate) for certificate in _in_order(certificates))
        if found is None or not chain:
            raise UsageError(f"{where} must have a private key and its certificate in it")
        key = _unencrypted(found)
    if not _fits(lambda: _context(chain, chain, key)):
        raise UsageError(f"{where}: the certificate that comes first is not that of the private key, or cannot be read")
    return chain, key


def _store(
    values: Mapping[str, str], folder: Path, store: Literal["keystore", "truststore"], *, inline: tuple[str, ...]
) -> tuple[str, str | bytes] | None:
    """What errors call the store, and its content: text where it is PEM; None where none is named."""
    kind = values.get(f"ssl.{store}.type", "PKCS12").upper()
    if kind not in ("PEM", "PKCS12", "JKS"):
        raise UsageError(f"'ssl.{store}.type' is {kind!r}, which is not supported; use PEM or PKCS12")
    name = f"ssl.{store}.location"
    given = [part for part in inline if part in values]
    if name in values and given:
        raise UsageError(f"'{name}' and '{given[0]}' are both given; give one of them")
    if given:
        missing = [part for part in inline if part not in values]
        if missing:
            raise UsageError(f"'{missing[0]}' is missing; it goes with '{given[0]}'")
        return " with ".join(map(repr, given)), "\n".join(values[part] for part in given)
    if "-----" in values.get(name, ""):
        raise UsageError(f"'{name}' holds PEM text; name a file with it, or give {' and '.join(map(repr, inline))}")
    if name in values:
        try:
            content = _content(folder / values[name])
        except UsageError as error:
            raise UsageError(f"'{name}' {error}") from None
        where = f"'{name}' {folder / values[name]}"
        return where, content.decode("latin-1") if b"-----BEGIN" in content else _pkcs12(content, where)
    if f"ssl.{store}.password" in values:
        raise UsageError(f"'{name}' is missing; it goes with 'ssl.{store}.password'")
    return None


def _pkcs12(content: bytes, where: str) -> bytes:
    """The content if it may be PKCS 12, whatever the type says: recent Java writes that under the name JKS, too."""
    if content[:4] in (bytes.fromhex("feedfeed"), bytes.fromhex("cececece")):
        raise UsageError(
            f"{where} is a store of Java's own old kind (JKS); convert it: keytool -importkeystore "
            "-srckeystore OLD -destkeystore NEW.p12 -deststoretype PKCS12"
        )
    if content[:1] != b"\x30":  # an ASN.1 sequence
        raise UsageError(f"{where} is neither PEM nor PKCS12")
    return content


def _open_pkcs12(
    content: bytes, where: str, values: Mapping[str, str], store: str
) -> tuple[PrivateKeyTypes | None, list[x509.Certificate]]:
    """The key in a store and its certificates, the key's own first."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - only where a store is given
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415 - the same

    name = f"ssl.{store}.password"
    password = values.get(name)
    try:
        opened = pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        reason = (
            f"has another password than '{name}'"
            if password is not None
            else f"cannot be opened without its password, '{name}'"
        )
        raise UsageError(f"{where} {reason}, or is not a PKCS12 store") from None
    first = [] if opened.cert is None else [opened.cert.certificate]
    return opened.key, first + [each.certificate for each in opened.additional_certs]


def _in_order(certificates: list[x509.Certificate]) -> Iterator[x509.Certificate]:
    """The first certificate and those that lead from it to its authority: a store keeps them in any order."""
    left = list(certificates)
    current = left.pop(0) if left else None
    while current is not None:
        yield current
        issuer = current.issuer
        current = next((each for each in left if each.subject == issuer), None)
        if current is not None:
            left.remove(current)


def _blocks(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Label and text of each PEM block, its lines broken anew: a value in a properties file may be one long line."""
    import base64  # noqa: PLC0415 - only where a store is given
    import textwrap  # noqa: PLC0415 - the same

    for label, body in re.findall(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", text, re.DOTALL):
        dense = "".join(body.split())
        try:
            base64.b64decode(dense, validate=True)
        except ValueError:
            raise UsageError(f"{where} has a {label} in it that is not base64; export it again") from None
        yield label, "\n".join((f"-----BEGIN {label}-----", *textwrap.wrap(dense, 64), f"-----END {label}-----\n"))


def _private_key(pem: str, password: str | None, where: str) -> str:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - only where a store is given
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - the same

    encrypted = pem.startswith("-----BEGIN ENCRYPTED")
    if encrypted and password is None:
        raise UsageError(f"{where} has an encrypted private key; give 'ssl.key.password'")
    try:
        return _unencrypted(load_pem_private_key(pem.encode(), (password or "").encode() if encrypted else None))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        reason = "another password than 'ssl.key.password', or one" if encrypted else "one"
        raise UsageError(f"{where} has a private key with {reason} that cannot be read") from None


def _unencrypted(key: PrivateKeyTypes) -> str:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - only where a store is given

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - only where a store is given

    return certificate.public_bytes(Encoding.PEM).decode()


def _fits(make: Callable[[], ssl.SSLContext]) -> bool:
    """Whether the clients will be able to make their context, of the very parts that they will make it of."""
    try:
        make()
    except (ValueError, OSError):  # an SSLError is an OSError
        return False
    return True


def _context(
    trusted: str | None, certificate: str | None, key: str | None, *, check_hostname: bool = True
) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - only where TLS is spoken

    context = ssl.create_default_context(cadata=trusted)
    context.check_hostname = check_hostname
    # as Java does: what is trusted need not be its own authority
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if certificate is not None and key is not None:
        _load_own(context, certificate, key)
    return context


def _load_own(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Hand over a certificate and its key by a file that is gone at once: OpenSSL takes them by no other way."""
    import tempfile  # noqa: PLC0415 - only where a client has a certificate

    with tempfile.TemporaryDirectory(prefix="kafkaperf-") as folder:
        file = Path(folder) / "client.pem"
        file.touch(mode=0o600)
        file.write_text(key + certificate, encoding="ascii")
        context.load_cert_chain(file, password="")  # none, and none asked for at the terminal


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()

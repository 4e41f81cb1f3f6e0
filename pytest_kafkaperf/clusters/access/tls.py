"""The TLS context of a client."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kafkaperf.core.errors import UsageError

if TYPE_CHECKING:
    import ssl


def make_context(
    trusted: str | None, certificate: str | None, key: str | None, *, check_hostname: bool = True
) -> ssl.SSLContext:
    """What a client trusts, and what it shows of itself; all of it PEM, the key not encrypted.

    Raises:
        ValueError: a part that is no such text.
        OSError: a part that OpenSSL cannot read, or a key of another certificate.

    """
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


_MAX_FILE_BYTES = 16 << 20
"""A hundred times the certificates of all public authorities."""


def content_of(path: Path) -> bytes:
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

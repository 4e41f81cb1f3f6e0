"""TLS contexts of clients, and the files that certificates are read from."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kafkaperf.core.errors import UsageError

if TYPE_CHECKING:
    import ssl


HOSTNAME = "ssl.endpoint.identification.algorithm"
"""The setting by which a client checks the broker's host name: `https`, or empty for no check."""


def make_context(
    trusted: str | None, certificate: str | None, key: str | None, *, check_hostname: bool = True
) -> ssl.SSLContext:
    """Make a client's TLS context; certificates and key are PEM, the key not encrypted.

    Raises:
        ValueError: a part is not PEM.
        OSError: OpenSSL cannot read a part, or the key belongs to another certificate.

    """
    import ssl  # noqa: PLC0415 - only for TLS

    context = ssl.create_default_context(cadata=trusted)
    context.check_hostname = check_hostname
    # As in Java, a trusted certificate need not be self-signed, and extensions that RFC 5280 demands may be missing.
    # Python sets the strict flag by default from 3.13 on.
    context.verify_flags = (context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT
    if certificate is not None and key is not None:
        _load_certificate(context, certificate, key)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a certificate and its key from a file, because OpenSSL offers no other way: on Linux, one in memory."""
    with contextlib.ExitStack() as stack:
        if hasattr(os, "memfd_create"):
            file = stack.enter_context(os.fdopen(os.memfd_create("client.pem"), "w", encoding="ascii"))
            path = Path(f"/proc/self/fd/{file.fileno()}")
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kafkaperf-"))  # of this user alone
            path = Path(folder) / "client.pem"
            file = stack.enter_context(path.open("w", encoding="ascii"))
        file.write(key + certificate)
        file.flush()
        # An empty password, so that OpenSSL does not ask for one at the terminal.
        context.load_cert_chain(path, password="")


def content_of(path: Path) -> bytes:
    """Read a whole file.

    Raises:
        UsageError: the file cannot be read; gives the reason.

    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; name a file that you can read") from None

"""MIT's key distribution center (KDC) as an ordinary process, with a realm of its own on a loopback port."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.brokers.local_brokers import free_ports
from tests.support.patience import PATIENCE_S

REALM = "KAFKAPERF.TEST"
_SBIN = "/usr/sbin"
"""Where Debian puts servers, which is not on every user's path."""
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")

_KRB5_CONF = """
[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = {canonicalize}
  rdns = true
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
"""

_KDC_CONF = """
[kdcdefaults]
  kdc_listen = 127.0.0.1:{port}
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {realm} = {{
    database_name = {folder}/principals
    key_stash_file = {folder}/stash
    acl_file = {folder}/acl
    max_life = {life_s}s
  }}
[logging]
  kdc = FILE:{folder}/kdc.log
  default = FILE:{folder}/other.log
"""


@dataclass
class Kdc:
    """A realm's database and, while it runs, its process."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def config(self) -> Path:
        """The krb5.conf of the realm, for clients and brokers."""
        return self.folder / "krb5.conf"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "PATH": f"{os.environ['PATH']}:{_SBIN}",
        }

    def configure(self, *, life_s: int, canonicalize: bool = False) -> None:
        values = {"realm": REALM, "port": self.port, "folder": self.folder, "life_s": life_s}
        self.config.write_text(_KRB5_CONF.format(**values, canonicalize=str(canonicalize).lower()))
        (self.folder / "kdc.conf").write_text(_KDC_CONF.format(**values))

    def start(self, variables: Mapping[str, str] | None = None) -> None:
        """Start the process, with further environment variables, and wait until it accepts connections."""
        environment = {**self.environment, **(variables or {})}
        command = ["krb5kdc", "-n", "-r", REALM]
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, (self.folder / "kdc.log").read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
        raise AssertionError("the KDC does not answer")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(PATIENCE_S)
            self.process = None

    def keytab(self, name: str, *principals: str) -> Path:
        """Create principals, and write their keys to a file."""
        path = self.folder / f"{name}.keytab"
        for principal in principals:
            self.administer(f"addprinc -randkey {principal}")
            self.administer(f"ktadd -k {path} {principal}")
        return path

    def administer(self, query: str) -> None:
        self._run("kadmin.local", "-r", REALM, "-q", query)

    def kinit(self, principal: str, keytab: Path, cache: Path) -> None:
        """Put a new ticket into a cache, as another program would from time to time."""
        self._run("kinit", "-k", "-t", str(keytab), "-c", f"FILE:{cache}", principal)

    def issued(self, principal: str) -> int:
        """The number of initial tickets for a client so far, without those for service principals."""
        log = (self.folder / "kdc.log").read_text()
        return len(re.findall(rf"AS_REQ .* ISSUE: .* {re.escape(principal)}@{REALM} for krbtgt/", log))

    def _run(self, *command: str) -> None:
        subprocess.run(command, env=self.environment, check=True, capture_output=True, timeout=PATIENCE_S)


@contextlib.contextmanager
def running_kdc(folder: Path, *, life_s: int) -> Iterator[Kdc]:
    """Run a KDC whose tickets have this life; skip the test if there is none on this machine."""
    absent = [name for name in _PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:{_SBIN}") is None]
    if absent:
        pytest.skip(f"no Kerberos: {', '.join(absent)} not found; apt-get install krb5-kdc krb5-admin-server krb5-user")
    (port,) = free_ports(1)
    kdc = Kdc(folder, port)
    kdc.configure(life_s=life_s)
    kdc._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of no use elsewhere")  # noqa: SLF001 - this module's own
    kdc.start()
    try:
        yield kdc
    finally:
        kdc.stop()

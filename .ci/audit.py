"""Whether an environment has packages with known vulnerabilities: `python .ci/audit.py PYTHON_OF_THE_ENVIRONMENT`.

pip-audit asks the package index itself, whose answers carry what the Python Packaging Advisory Database knows. Where
the index cannot be asked, nothing is known and nothing fails: that is said, for a person to look at.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

IGNORED: dict[str, str] = {}
"""Identifier of a vulnerability, and why it does not matter here."""
_INSTALL_S = 300
_AUDIT_S = 600


def main() -> None:
    """Audit, print what is known, and fail with it."""
    (python,) = sys.argv[1:]
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="kafkaperf-audit-") as folder:
        own = installed(Path(folder))
        # Indexes that are mirrors may not have what pip-audit asks for: then nobody is asked about the rest.
        asked = audit(own, ["-r", _example(Path(folder)), "--no-deps", "--disable-pip"])
        answer = None if _unknown(asked) else audit(own, ["--path", packages])
    if answer is None:
        print("NOT AUDITED: the package index does not tell of vulnerabilities; see above")
        return
    skipped = [f"{each['name']} ({each['skip_reason']})" for each in answer if "skip_reason" in each]
    known = [
        f"{each['name']} {each['version']}: {one['id']}, fixed in {', '.join(one['fix_versions']) or 'no version'}"
        for each in answer
        for one in each.get("vulns", ())
    ]
    print(f"{len(answer) - len(skipped)} packages audited; not audited: {', '.join(skipped) or 'none'}")
    print("\n".join(known) or "no known vulnerabilities")
    sys.exit(bool(known))


def installed(folder: Path) -> Path:
    """The Python of an environment with pip-audit."""
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, timeout=_INSTALL_S)
    own = folder / "venv/bin/python"
    subprocess.run([own, "-m", "pip", "install", "--quiet", "pip-audit"], check=True, timeout=_INSTALL_S)
    return own


def audit(own: Path, what: Sequence[str | Path]) -> list[dict[str, Any]] | None:
    """What is known of these; None where nobody answers."""
    ignored = [part for name in IGNORED for part in ("--ignore-vuln", name)]
    with tempfile.TemporaryDirectory(prefix="kafkaperf-audit-") as folder:
        report = Path(folder) / "report.json"
        options = ["--format", "json", "--output", report, "--progress-spinner", "off", *ignored]
        try:
            subprocess.run([own, "-m", "pip_audit", *what, *options], check=False, timeout=_AUDIT_S)
            answer: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["dependencies"]
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            print(f"{type(error).__name__}: {error}")
            return None
    return answer


def _example(folder: Path) -> Path:
    """A package of which a vulnerability is known."""
    path = folder / "example.txt"
    path.write_text("jinja2==3.1.0\n", encoding="ascii")
    return path


def _unknown(asked: Sequence[Mapping[str, Any]] | None) -> bool:
    return not any(each.get("vulns") for each in asked or ())


if __name__ == "__main__":
    main()

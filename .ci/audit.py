"""Whether an environment has packages with known vulnerabilities: `python .ci/audit.py PYTHON_OF_THE_ENVIRONMENT`.

pip-audit asks the package index itself, whose answers carry what the Python Packaging Advisory Database knows. Where
the index cannot be asked, nothing is known and nothing fails: that is said, for a person to look at.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
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
        answer = audit(packages, Path(folder))
    if answer is None:
        print("NOT AUDITED: the package index could not be asked for vulnerabilities; see above")
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


def audit(packages: str, folder: Path) -> list[dict[str, Any]] | None:
    """What is known of the packages in a folder; None where nobody answers."""
    own = folder / "venv/bin/python"
    report = folder / "report.json"
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, timeout=_INSTALL_S)
    subprocess.run([own, "-m", "pip", "install", "--quiet", "pip-audit"], check=True, timeout=_INSTALL_S)
    ignored = [part for name in IGNORED for part in ("--ignore-vuln", name)]
    options = ["--path", packages, "--format", "json", "--output", report, "--progress-spinner", "off", *ignored]
    try:
        subprocess.run([own, "-m", "pip_audit", *options], check=False, timeout=_AUDIT_S)
        answer: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["dependencies"]
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        print(f"{type(error).__name__}: {error}")
        return None
    return answer


if __name__ == "__main__":
    main()

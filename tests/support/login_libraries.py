"""Libraries that only logins with tokens or tickets need."""

from __future__ import annotations

_LOGINS = {
    "authlib",
    "aws_msk_iam_sasl_signer",
    "azure",
    "boto3",
    "botocore",
    "google.auth",
    "gssapi",
    "joserfc",
    "requests_oauthlib",
}


def login_libraries(names: set[str]) -> set[str]:
    """Those among the names of modules; `google.auth` is one, and other parts of `google` are none."""
    return {each for each in _LOGINS for name in names if f"{name}.".startswith(f"{each}.")}

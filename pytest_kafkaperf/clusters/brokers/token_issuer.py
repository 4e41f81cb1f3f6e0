"""Issuer of access tokens for brokers that the plugin starts: a new key pair for each cluster, and a token."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import PurePosixPath

from pydantic import SecretStr

from pytest_kafkaperf.core.errors import ClusterError

_NAME = "pytest-kafkaperf"
"""The tokens' issuer and audience, which the brokers check."""
_LEEWAY_S = 3600
"""Tolerance for slow clocks in containers and on other machines."""
_VALIDITY_S = 30 * 24 * 3600
"""Validity: longer than any run, but short enough that a leftover token soon becomes useless."""
_ALGORITHM = "ES256"


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """A token for a cluster's clients, and the public key with which brokers verify it."""

    keys: str
    """JSON Web Key Set (RFC 7517). The private key is discarded, so nobody can sign another token."""
    token: SecretStr


def issue_token(user: str) -> IssuedToken:
    """Create a key pair, and a token for this user.

    Raises:
        ClusterError: joserfc is not installed.

    """
    try:
        from joserfc import jwt  # noqa: PLC0415 - an extra
        from joserfc.jwk import ECKey, KeySet  # noqa: PLC0415 - the same
    except ImportError:
        raise ClusterError(
            "kafka_cluster(security='sasl_oauth') requires joserfc, which signs tokens; run: pip install "
            "'pytest-kafkaperf[oauth]'"
        ) from None
    key = ECKey.generate_key("P-256", {"kid": _NAME, "use": "sig", "alg": _ALGORITHM})
    now_s = int(time.time())
    claims = {"iss": _NAME, "aud": _NAME, "sub": user, "iat": now_s - _LEEWAY_S, "exp": now_s + _VALIDITY_S}
    token = jwt.encode({"alg": _ALGORITHM, "kid": _NAME}, claims, key, algorithms=[_ALGORITHM])
    return IssuedToken(keys=json.dumps(KeySet([key]).as_dict(private=False)), token=SecretStr(token))


def verifying_properties(prefix: str, keys: str) -> dict[str, str]:
    """Return broker properties that accept only the issuer's tokens.

    Args:
        prefix: prefix of the listener's properties.
        keys: path at which the broker finds the key set.

    """
    return {
        f"{prefix}.oauthbearer.sasl.server.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": PurePosixPath(keys).as_uri(),
        f"{prefix}.sasl.oauthbearer.expected.audience": _NAME,
        f"{prefix}.sasl.oauthbearer.expected.issuer": _NAME,
    }


def allowing_option(keys: str) -> str:
    """Return the Java option that allows brokers to read the key set, which they need since Kafka 4.0."""
    return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={PurePosixPath(keys).as_uri()}"

"""The cost of authentication and encryption.

SASL logs in once for each connection, so without TLS, `sasl_scram` and `sasl_oauth` should be as fast as plaintext. TLS
encrypts each record, so it determines the cost, whether clients log in with a password or with an access token.
`sasl_oauth` requires `pip install 'pytest-kafkaperf[oauth]'`.

Each combination starts its own brokers, and cold ones differ more than the logins do. Add
`-o kafka_broker_warmup='60 s'` to compare warm brokers, which takes five minutes.

Expected: throughput falls to about a third, on both small and large brokers. Source D in the README: 100,000 and
280,000 records/s with and without security on 2 vCPUs, 320,000 and 1,000,000 on 16 vCPUs.

On an external cluster, all tests use that cluster's security, because `security` only applies to brokers that the
plugin starts.
"""

import pytest

from pytest_kafkaperf import kafka_scenario


@pytest.mark.parametrize("security", [None, "sasl_scram", "sasl_oauth", "tls", "sasl_scram+tls", "sasl_oauth+tls"])
@kafka_scenario(record_size="1 KiB", partitions=6, acks=1, warmup="5 s")
def test_security(kafka_perf, security):
    kafka_perf()

"""The schema registry and the service under test."""

import pytest
import registry
import shop


@pytest.fixture(scope="session")
def registry_url(tmp_path_factory):
    """The URL of a registry for all tests. Workers and the service get it from the environment."""
    try:
        with registry.running(tmp_path_factory.mktemp("registry")) as url, pytest.MonkeyPatch.context() as patch:
            patch.setenv("SCHEMA_REGISTRY_URL", url)
            yield url
    except registry.UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def start_service(kafka_app, registry_url):
    """A function that starts the service for Avro or Protobuf orders."""

    def start(kind, topic):
        return kafka_app(["python", "service.py", kind], ready="group:acceptance", topics={topic: 2, shop.ACCEPTED: 2})

    return start

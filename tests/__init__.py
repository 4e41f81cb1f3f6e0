"""The tests of pytest-kafkaperf."""

import pytest

pytest.register_assert_rewrite("tests.support")

"""For all tests here and in `examples/`: pytester, to run pytest on projects as users have them."""

pytest_plugins = ["pytester"]

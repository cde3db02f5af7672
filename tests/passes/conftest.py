# SPDX-License-Identifier: Apache-2.0
"""The option that writes expected texts anew."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="write the expected text of passes anew")

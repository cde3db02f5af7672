# SPDX-License-Identifier: Apache-2.0
"""Front ends are tested with their real frameworks, which take seconds to load: the slow suite."""

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test below this folder slow: `make check` loads no framework."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.slow)

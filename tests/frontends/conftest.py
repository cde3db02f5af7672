# SPDX-License-Identifier: Apache-2.0
"""Front ends are tested with their real frameworks, which take seconds to load: the slow suite."""

from functools import cache
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test below this folder slow: `make check` loads no framework."""
    for item in items:
        if _is_below(item.path):
            item.add_marker(pytest.mark.slow)


@cache
def _is_below(path: Path) -> bool:
    return path.is_relative_to(Path(__file__).parent)

# SPDX-License-Identifier: Apache-2.0
"""These tests need TensorFlow: its own results are what the lowering is held against."""

import pytest

pytest.importorskip("tensorflow")

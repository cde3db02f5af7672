"""These tests need TensorFlow: its own results are what the lowering is held against."""

import pytest

pytest.importorskip("tensorflow")

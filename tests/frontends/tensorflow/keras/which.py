# SPDX-License-Identifier: Apache-2.0
"""The Keras whose tables these are: Keras 3, or Keras 2 where TensorFlow is told to use that one.

TensorFlow's own switch is `TF_USE_LEGACY_KERAS=1`. Keras 2 is `tf_keras`, which is not among the
tests' requirements: see pyproject.toml.
"""

import importlib
import os
from typing import Any

IS_KERAS_2 = os.environ.get("TF_USE_LEGACY_KERAS") == "1"

keras: Any = importlib.import_module("tf_keras" if IS_KERAS_2 else "keras")

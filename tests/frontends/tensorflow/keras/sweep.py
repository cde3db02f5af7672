# SPDX-License-Identifier: Apache-2.0
"""All rows of the tables, or those that a pattern matches.

    python -m tests.frontends.tensorflow.keras.sweep ['names']

compares them with plain TensorFlow and prints those that fail. With `TF_USE_LEGACY_KERAS=1` they
are those of Keras 2; `make test-tensorflow-libraries` runs these.
"""

import logging
import re
import sys
import time
from collections.abc import Sequence

import tensorflow as tf
from tests.frontends.tensorflow.keras.names import public_names
from tests.frontends.tensorflow.keras.row import Row, check_row
from tests.frontends.tensorflow.keras.table import CANNOT, ROWS


def compare_all(rows: Sequence[Row]) -> int:
    """Compare rows, print those that fail, and return how many they are, as an exit status."""
    tf.get_logger().setLevel(logging.ERROR)
    failed, begin = 0, time.process_time()
    for row in rows:
        try:
            check_row(row)
        except Exception as error:  # each row is its own
            failed += 1
            text = re.sub(r"\s+", " ", str(error))
            print(f"{row.name:36} {type(error).__name__}: {text[:500]}", flush=True)
    print(f"{len(rows)} rows, {failed} failed, {time.process_time() - begin:.0f} s of one core")
    return min(failed, 100)


def main() -> int:
    """Compare the rows that the command line asks for."""
    unlisted = set(public_names()) ^ (ROWS.keys() | CANNOT.keys())
    assert not unlisted, f"without a row and a reason, or not of this Keras: {unlisted}"
    names = re.compile(sys.argv[1] if len(sys.argv) > 1 else ".*")
    return compare_all([row for name, row in sorted(ROWS.items()) if names.fullmatch(name)])


if __name__ == "__main__":
    sys.exit(main())

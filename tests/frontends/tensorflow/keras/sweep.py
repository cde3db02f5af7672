"""All rows of the tables, or those that a pattern matches.

    python -m tests.frontends.tensorflow.keras.sweep ['names']

compares them with plain TensorFlow and prints those that fail.
"""

import logging
import re
import sys
import time

import tensorflow as tf
from tests.frontends.tensorflow.keras.row import compare
from tests.frontends.tensorflow.keras.table import ROWS


def main() -> None:
    """Compare the rows that the command line asks for."""
    tf.get_logger().setLevel(logging.ERROR)
    names = re.compile(sys.argv[1] if len(sys.argv) > 1 else ".*")
    rows = [row for name, row in sorted(ROWS.items()) if names.fullmatch(name)]
    failed, begin = 0, time.process_time()
    for row in rows:
        try:
            compare(row)
        except Exception as error:  # each row is its own
            failed += 1
            text = re.sub(r"\s+", " ", str(error))
            print(f"{row.name:36} {type(error).__name__}: {text[:500]}", flush=True)
    print(f"{len(rows)} rows, {failed} failed, {time.process_time() - begin:.0f} s of one core")


if __name__ == "__main__":
    main()

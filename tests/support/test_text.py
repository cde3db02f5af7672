# SPDX-License-Identifier: Apache-2.0
"""Text helpers: suggestions and units."""

import pytest

from ingot.support.text import (
    MOST_SHOWN,
    did_you_mean,
    format_bytes,
    format_seconds,
    nearest,
    shortened,
)


def test_nearest_finds_a_misspelling_and_gives_up_on_nonsense():
    assert nearest("algsmp", ["dce", "algsimp", "cse"]) == "algsimp"
    assert nearest("qqqq", ["dce", "algsimp"]) == ""
    assert did_you_mean("algsmp", ["algsimp"]) == "did you mean 'algsimp'?"
    assert did_you_mean("qqqq", ["algsimp"]) == ""


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (200 << 20, "200 MiB"),
        (5 << 40, "5.0 TiB"),
        (5000 << 40, "5000 TiB"),
    ],
)
def test_bytes(count, text):
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (2, "2 s"), (0.5, "500 ms"), (4.2e-6, "4.2 us"), (3e-9, "3 ns")],
)
def test_seconds(seconds, text):
    assert format_seconds(seconds) == text


def test_a_long_formula_lacks_its_middle():
    assert shortened("n * 4") == "n * 4"
    assert shortened("a" * MOST_SHOWN) == "a" * MOST_SHOWN
    found = shortened("a" * 100 + "b" * 1000 + "c" * 100)
    assert found == "a" * 80 + " [... 1040 characters ...] " + "c" * 80

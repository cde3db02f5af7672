# SPDX-License-Identifier: Apache-2.0
"""The series of TensorFlow that the front end is tested with, and what differs between them.

The only place that compares TensorFlow's version. On another series the front end still works if
every name that it patches is there (`patches`): `tell_if_untested` says so once, and variables are
read and written by TensorFlow's own ops, because nobody has looked at the layout of its objects.

`make test-tensorflow TENSORFLOW=2.20` runs the tests on one of the series.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache

from ingot.frontends.tensorflow.api.modules import tensorflow
from ingot.support.records import record

_logger = logging.getLogger("ingot.tensorflow")

LOCK, UNLOCK, LOOKUP = "absl_mutex_lock", "absl_mutex_unlock", "tensorflow_lookup_variable"
"""Exported functions whose mangled names differ between series, by names of ours."""


@record
class Series:
    """One series.

    Attributes:
        version: its first two numbers.
        abseil: the inline namespace of the abseil that it is built with, as it is mangled.
        lock, unlock: methods of `absl::Mutex`, as they are mangled.
    """

    version: str
    abseil: str
    lock: str
    unlock: str

    def mangled(self) -> Mapping[str, str]:
        """Return the mangled names of the functions that differ."""
        mutex = f"_ZN4absl{self.abseil}5Mutex"
        return {
            LOCK: f"{mutex}{self.lock}Ev",
            UNLOCK: f"{mutex}{self.unlock}Ev",
            LOOKUP: (
                f"_ZN10tensorflow14LookupResourceINS_3VarELb0EEEN4absl{self.abseil}6StatusEPNS_"
                "15OpKernelContextERKNS_14ResourceHandleEPPT_"
            ),
        }


TESTED = (
    Series("2.20", "12lts_20250127", "4Lock", "6Unlock"),
    Series("2.21", "12lts_20250814", "4lock", "6unlock"),
)

INSTALL = "install TensorFlow " + " or ".join(series.version for series in TESTED)
"""The hint where a TensorFlow lacks something."""


def current() -> Series | None:
    """Return the series of the TensorFlow in this process; None for one that is not tested."""
    version = ".".join(str(tensorflow.__version__).split(".")[:2])
    return next((series for series in TESTED if series.version == version), None)


@cache
def tell_if_untested() -> None:
    """Say once that this TensorFlow is not one that the front end is tested with."""
    if current() is None:
        _logger.warning(
            "Ingot is tested with TensorFlow %s, and this is %s: what it relies on may have "
            "changed. If something is wrong, %s",
            " and ".join(series.version for series in TESTED),
            tensorflow.__version__,
            INSTALL,
        )

# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver that is not there, too old, or fails; what every GPU needs."""

from __future__ import annotations

import pytest
from tests.gpu.fake_driver import FakeDriver

import ingot
from ingot.gpu.machine import machine_for
from ingot.runtime.cuda import driver as module
from ingot.runtime.cuda.driver import CudaError, Driver

TEXT = "HloModule m\nENTRY e { x = f32[] parameter(0)\n ROOT r = f32[] add(x, x) }"


def test_no_driver_is_an_error_that_says_what_to_do() -> None:
    module.driver.cache_clear()
    hint = r"INGOT0324.*libnothing\.so(.|\n)*INGOT_CUDA_LIBRARY"
    with (
        ingot.config(cuda_library="libnothing.so"),
        pytest.raises(ingot.UnsupportedError, match=hint),
    ):
        ingot.compile(TEXT, device="gpu")


def test_an_old_driver_is_refused() -> None:
    with pytest.raises(ingot.UnsupportedError, match=r"INGOT0324.*too old: it is for CUDA 11\.8"):
        Driver(FakeDriver(version=11080))


def test_a_driver_without_a_function_is_too_old() -> None:
    class Older(FakeDriver):
        """Has no libraries."""

        def __getitem__(self, name: str) -> object:
            if name == "cuLibraryLoadData":
                raise AttributeError(name)
            return super().__getitem__(name)

    with pytest.raises(ingot.UnsupportedError, match="it has no cuLibraryLoadData"):
        Driver(Older())


def test_a_driver_that_does_not_start() -> None:
    fake = FakeDriver(failures={"cuInit": 999})
    with pytest.raises(CudaError, match=r"INGOT0526.*cuInit: CUDA_ERROR_999"):
        Driver(fake)


def test_old_gpus_are_refused() -> None:
    with pytest.raises(ingot.UnsupportedError, match=r"INGOT0323.*compute capability 7\.0"):
        machine_for((7, 0), "V100")

# SPDX-License-Identifier: Apache-2.0
"""Programs on NVIDIA GPUs, by the C API of the CUDA driver: no package of NVIDIA is needed.

`driver` the driver's functions and errors, `devices` contexts and streams, `arrays` memory of a
device, `program` a compiled program that can be called; `records` and `native` are what host
programs call. Source: NVIDIA, CUDA Driver API.
"""

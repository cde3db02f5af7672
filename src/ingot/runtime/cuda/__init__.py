# SPDX-License-Identifier: Apache-2.0
"""Programs on NVIDIA GPUs, by the C API of the CUDA driver: no package of NVIDIA is needed.

`driver` has the driver's functions and errors, `devices` contexts and streams, `arrays` memory of a
device, `arguments` the conversion of a call's arguments. `program` is a compiled program that can
be called, `staged` one that computes sizes, `hosted` one for arrays of the host. Native functions,
linked by `library`: host programs call `native` and `graph_code`, callers with arrays of the host
call `hosted_code` and `shared_code`; `records` declares their records. Source: NVIDIA, CUDA Driver
API.
"""

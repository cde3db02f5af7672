# SPDX-License-Identifier: Apache-2.0
"""Programs on NVIDIA GPUs, by the C API of the CUDA driver: no package of NVIDIA is needed.

`driver` the driver's functions and errors, `devices` contexts and streams, `arrays` memory of a
device, `program` a compiled program that can be called, `staged` one that computes sizes, `hosted`
one for arrays of the host, `arguments` what a call is given. Machine code, linked by `library`:
`native` and `graph_code` are what host programs call, `hosted_code` and `shared_code` what callers
with arrays of the host need; `records` their records. Source: NVIDIA, CUDA Driver API.
"""

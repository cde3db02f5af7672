# SPDX-License-Identifier: Apache-2.0
"""The CPU backend: pipeline, emitters from kernel IR to LLVM IR, the host program, the artifact."""

# SPDX-License-Identifier: Apache-2.0
"""Programs on several devices: from one program over global shapes to the program of each device.

What the user divides by hand (`shard_map`, `pmap`) stays as it is; what arrives divided is computed
on parts as far as the ops allow, and gathered where they do not.
"""

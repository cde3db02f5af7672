# SPDX-License-Identifier: Apache-2.0
"""Programs on several devices: from one program over global shapes to the program of each device.

Code that the user divides by hand (`shard_map`, `pmap`) stays as it is. Ops on other divided values
are computed on the parts if they allow that, and on gathered values if not.
"""

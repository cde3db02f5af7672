# SPDX-License-Identifier: Apache-2.0
"""Native collectives: virtual devices, one thread each, exchange bytes through one rendezvous.

`new_rendezvous` makes the record where the devices of one execution meet; its address goes into the
`rendezvous` field of each device's `IngotRuntime` record. The calls of `targets` do the rest.
"""

from ingot.runtime.foreign.collectives.rendezvous import Rendezvous, new_rendezvous

__all__ = ["Rendezvous", "new_rendezvous"]

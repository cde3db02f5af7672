# SPDX-License-Identifier: Apache-2.0
"""Native collectives: virtual devices, one thread each, exchange bytes through one rendezvous.

`new_rendezvous` makes the record where the devices of one execution meet; its address goes into the
`rendezvous` field of each device's `IngotRuntime` record. The calls of `targets` do the rest.

The other files, those that import others first:

* `links`: two stream sockets for each pair of devices of two processes, made when first needed;
* `turns`: the devices of one process as fibers of a few threads, as native functions;
* `combiners`: native functions that fold two parts of devices, element by element;
* `couriers`: for each device a thread that exchanges data while the device computes;
* `greetings`: processes compare their programs before the first execution of each;
* `memory_readers`: whether two processes can read each other's memory, tried when a link is made;
* `mpi_library`: the MPI library of this machine, and the transport through it;
* `sockets`: messages through stream sockets, as native functions: two sockets for each pair of
  devices;
* `exchange`: the exchange, as native functions: give one operand to some devices, take the operands
  of some;
* `mpi`: messages through MPI, as native functions;
* `rings`: memory that two processes of one machine share, for one direction of a link;
* `messages`: what an exchange sends to devices of other processes and receives from them;
* `progress`: moving all messages of a call until they are complete, for any transport;
* `visit`: the state of a device during an exchange, and its copies, as native functions;
* `records`: the records of collectives: the meeting of devices, the tables of a call, messages to
  processes.
"""

from ingot.runtime.foreign.collectives.rendezvous import Rendezvous, new_rendezvous

__all__ = ["Rendezvous", "new_rendezvous"]

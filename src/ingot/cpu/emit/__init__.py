"""Emitters: kernel IR to LLVM IR. An emitter spells out what the schedule says, never chooses."""

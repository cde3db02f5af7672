# SPDX-License-Identifier: Apache-2.0
"""The GPU compiler: a module in, an artifact out.

Passes, then kernels, then the host program, which runs on the CPU. Invariant: as on the CPU, equal
modules and machines give equal artifacts.
"""

from __future__ import annotations

from ingot.artifact.artifact import Artifact
from ingot.artifact.device_code import DeviceCode
from ingot.gpu.host import GpuHostProgram, emit_transfers
from ingot.gpu.kernels import GpuKernelSet
from ingot.gpu.machine import GpuMachine
from ingot.gpu.pipeline import PIPELINE
from ingot.hlo.module import Module
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.rewrite.runner import run_passes
from ingot.host.placed import PlacedModule
from ingot.host.program import constant_block, emit_functions
from ingot.host.sites import scheduled_fusions
from ingot.host.sizes import plan_sizes, program_info
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import assembly, compile_object
from ingot.llvm.optimization import HOST_PROGRAM
from ingot.llvm.target import TargetSpec
from ingot.passes.buffers.assignment import assign_buffers
from ingot.passes.buffers.buffer_table import BufferAssignment
from ingot.passes.buffers.verify import verify_assignment
from ingot.semantics.foreign_calls import call_sites
from ingot.support.records import record, replace
from ingot.support.timing import PhaseTimer


@record
class GpuProgram:
    """An artifact, and what the stages of its compilation made.

    Attributes:
        artifact: the compiled program.
        module: the module after all passes, scheduled.
        kernels: kernels with kernel IR.
        assignment: where values live.
        kernel_text: LLVM IR of the kernels.
        host_text: LLVM IR of the host program.
    """

    artifact: Artifact
    module: Module
    kernels: GpuKernelSet
    assignment: BufferAssignment
    kernel_text: str
    host_text: str


def compile_module(
    module: Module, context: PassContext, machine: GpuMachine, timer: PhaseTimer
) -> GpuProgram:
    """Compile `module`, which is consumed (rewritten in place).

    Args:
        module: the program.
        context: options of the passes; its floating-point licence is that of the code, too.
        machine: the GPU.
        timer: gets the seconds of each phase.

    Raises:
        UnsupportedError: an op or element type that the GPU backend cannot run.
    """
    machine = replace(machine, contracts=context.fp >= Fp.CONTRACT)
    with timer.phase("passes"):
        run_passes(PIPELINE, module, context)
    kernels = GpuKernelSet(machine, context)
    with timer.phase("kernels"):
        for fusion in scheduled_fusions(module):
            kernels.add(fusion)
    with timer.phase("buffers"):
        assignment = assign_buffers(module, kernels.scratch_bytes)
        if context.debug:
            verify_assignment(module, module.schedule, assignment)
    program = _link_up(module, kernels, assignment, timer)
    module.drop_analyses()
    return program


def _link_up(
    module: Module, kernels: GpuKernelSet, assignment: BufferAssignment, timer: PhaseTimer
) -> GpuProgram:
    """Make the host program and the kernels' PTX, then the artifact of both."""
    plan = plan_sizes(module)
    info = program_info(module, plan, assignment)
    placed = PlacedModule(module, assignment, plan, info)
    host, machine = TargetSpec.host(), kernels.machine
    with timer.phase("host program"):
        builder = ModuleBuilder.for_target("host", host)
        info = emit_functions(GpuHostProgram(builder, placed, kernels))
        emit_transfers(builder, placed)
        host_text = builder.text()
        host_object = compile_object(host_text, host, HOST_PROGRAM)
    with timer.phase("machine code"):
        kernel_text = kernels.llvm_ir()
        ptx = assembly(kernel_text, machine.target)
    artifact = Artifact(
        info,
        f"{host.triple} {host.cpu}",
        host_object,
        (),
        constant_block(assignment),
        assignment.arena_bytes,
        module.analysis(call_sites),
        DeviceCode(machine.name, ptx, tuple(kernels.handles)),
    )
    return GpuProgram(artifact, module, kernels, assignment, kernel_text, host_text)

# SPDX-License-Identifier: Apache-2.0
"""The messages of XLA that Ingot reads and writes: programs and compile options.

One line per field: `number name type`, `*` after the type when it is repeated, `?` when 0 is
written too. A message's name starts at the margin. Types are protobuf's scalar types, `enum`, or a
message. Fields that are not here are skipped when reading: profiles, debugging tables, sparsity,
buffer assignment.

Source: hlo.proto, xla_data.proto, compile_options.proto, run_hlo_module.proto of XLA.
"""

from __future__ import annotations

from functools import cache

from ingot.formats.hlo_proto.ifrt_schema import IFRT_SCHEMA
from ingot.formats.hlo_proto.profile_schema import PROFILE_SCHEMA
from ingot.support.records import record

_SCHEMA = """
HloModuleProto
  1 name string
  2 entry_computation_name string
  3 computations HloComputationProto*
  4 host_program_shape ProgramShapeProto
  5 id int64
  6 entry_computation_id int64
  7 schedule HloScheduleProto
  8 input_output_alias HloInputOutputAliasProto
  11 is_dynamic bool
  12 spmd_output_sharding OpSharding
  14 spmd_parameters_shardings OpSharding*
  16 use_auto_spmd_partitioning bool
  17 stack_frame_index StackFrameIndexProto
  18 buffer_donor HloBufferDonorProto
  19 frontend_attributes FrontendAttributes
HloProto
  1 hlo_module HloModuleProto
HloSnapshot
  1 hlo HloProto
  2 arguments LiteralProto*
  3 result LiteralProto
  4 execution_platform string
HloUnoptimizedSnapshot
  1 hlo_module HloModuleProto
  2 partitions HloInputs*
  3 version int32
HloInputs
  1 arguments LiteralProto*
RunHloModuleLiterals
  1 iterations RunHloModuleIterationLiterals*
RunHloModuleIterationLiterals
  2 arguments LiteralProto*
  3 result LiteralProto
  4 reference_result LiteralProto
HloModuleProtoWithConfig
  1 hlo_module HloModuleProto
  2 config HloModuleConfigProto
HloModuleConfigProto
  1 entry_computation_layout ProgramShapeProto
  4 replica_count int64
  5 num_partitions int64
HloComputationProto
  1 name string
  2 instructions HloInstructionProto*
  4 program_shape ProgramShapeProto
  5 id int64
  6 root_id int64
  7 is_fusion_computation bool
  8 execution_thread string
HloInstructionProto
  1 name string
  2 opcode string
  3 shape ShapeProto
  7 metadata OpMetadata
  8 literal LiteralProto
  9 parameter_number int64
  11 fusion_kind string
  13 tuple_index int64
  14 dimensions int64*
  15 window Window
  16 convolution_dimension_numbers ConvolutionDimensionNumbers
  17 slice_dimensions SliceDimensions*
  18 exponent_bits int32
  19 mantissa_bits int32
  20 dynamic_slice_sizes int64*
  21 padding_config PaddingConfig
  22 outfeed_config bytes
  23 distribution enum
  24 epsilon float
  25 feature_index int64
  26 channel_id int64
  27 infeed_config bytes
  28 custom_call_target string
  29 outfeed_shape ShapeProto
  30 dot_dimension_numbers DotDimensionNumbers
  31 fft_type enum
  32 fft_length int64*
  33 gather_dimension_numbers GatherDimensionNumbers
  34 gather_slice_sizes int64*
  35 id int64
  36 operand_ids int64*
  37 control_predecessor_ids int64*
  38 called_computation_ids int64*
  40 sharding OpSharding
  43 backend_config bytes
  45 all_reduce_id int64
  47 is_host_transfer bool
  48 scatter_dimension_numbers ScatterDimensionNumbers
  49 replica_groups ReplicaGroup*
  50 feature_group_count int64
  51 precision_config PrecisionConfig
  52 source_target_pairs SourceTarget*
  54 domain_entry_sharding OpSharding
  55 domain_exit_sharding OpSharding
  56 constrain_layout bool
  57 operand_shapes_with_layout ShapeProto*
  58 batch_group_count int64
  59 triangular_solve_options TriangularSolveOptions
  60 is_stable bool
  61 parameter_replication ParameterReplication
  62 cholesky_options CholeskyOptions
  63 comparison_direction string
  65 custom_call_has_side_effect bool
  66 delta int64
  67 indices_are_sorted bool
  68 frontend_attributes FrontendAttributes
  69 unique_indices bool
  70 rng_algorithm enum
  71 use_global_device_ids bool
  72 comparison_type string
  74 output_operand_aliasing OutputOperandAliasing*
  75 padding_type enum
  76 custom_call_schedule enum
  77 custom_call_api_version enum
  79 async_execution_thread string
  80 cross_program_prefetch_index int32?
  81 k int64
  85 largest bool
  87 collective_device_list CollectiveDeviceListProto
  89 is_composite bool
  90 ragged_dot_dimension_numbers RaggedDotDimensionNumbers
  91 result_accuracy ResultAccuracy
  92 iota_collective_device_list IotaReplicaGroupListProto
  94 is_reverse bool
  95 num_carries int64
  96 is_associative enum
OpMetadata
  1 op_type string
  2 op_name string
  3 source_file string
  4 source_line int32
  15 stack_frame_id int32
ShapeProto
  2 element_type enum
  3 dimensions int64*
  4 tuple_shapes ShapeProto*
  5 layout LayoutProto
  6 is_dynamic_dimension bool*
LayoutProto
  1 minor_to_major int64*
  6 tiles TileProto*
  7 element_size_in_bits int64
  8 memory_space int64
  16 tail_padding_alignment_in_elements int64
TileProto
  1 dimensions int64*
ProgramShapeProto
  1 parameters ShapeProto*
  2 result ShapeProto
  3 parameter_names string*
LiteralProto
  1 shape ShapeProto
  2 preds bool*
  3 u8s bytes
  4 s32s int32*
  5 s64s int64*
  6 u32s uint32*
  7 u64s uint64*
  8 f32s float*
  9 f64s double*
  10 tuple_literals LiteralProto*
  11 f16s bytes
  12 c64s float*
  13 bf16s bytes
  15 s8s bytes
  16 u16s bytes
  17 s16s bytes
  18 c128s double*
  19 f8e5m2s bytes
  20 f8e4m3fns bytes
  21 s4s bytes
  22 u4s bytes
  23 f8e4m3b11fnuzs bytes
  24 f8e5m2fnuzs bytes
  25 f8e4m3fnuzs bytes
  26 s2s bytes
  27 u2s bytes
  28 f8e4m3s bytes
  29 f8e3m4s bytes
  30 s1s bytes
  31 u1s bytes
  32 f4e2m1fns bytes
  33 f8e8m0fnus bytes
Window
  1 dimensions WindowDimension*
WindowDimension
  1 size int64
  2 stride int64
  3 padding_low int64
  4 padding_high int64
  5 window_dilation int64
  6 base_dilation int64
  7 window_reversal bool
ConvolutionDimensionNumbers
  3 kernel_input_feature_dimension int64
  4 kernel_output_feature_dimension int64
  6 kernel_spatial_dimensions int64*
  7 input_batch_dimension int64
  8 input_feature_dimension int64
  9 output_batch_dimension int64
  10 output_feature_dimension int64
  11 input_spatial_dimensions int64*
  12 output_spatial_dimensions int64*
UniformQuantizedConvolutionDimensionNumbersAttr
  1 input_batch_dimension int64
  2 input_feature_dimension int64
  3 input_spatial_dimensions int64*
  4 kernel_input_feature_dimension int64
  5 kernel_output_feature_dimension int64
  6 kernel_spatial_dimensions int64*
  7 output_batch_dimension int64
  8 output_feature_dimension int64
  9 output_spatial_dimensions int64*
SliceDimensions
  1 start int64
  2 limit int64
  3 stride int64
PaddingConfig
  1 dimensions PaddingConfigDimension*
PaddingConfigDimension
  1 edge_padding_low int64
  2 edge_padding_high int64
  3 interior_padding int64
DotDimensionNumbers
  1 lhs_contracting_dimensions int64*
  2 rhs_contracting_dimensions int64*
  3 lhs_batch_dimensions int64*
  4 rhs_batch_dimensions int64*
RaggedDotDimensionNumbers
  1 dot_dimension_numbers DotDimensionNumbers
  2 lhs_ragged_dimensions int64*
  3 rhs_group_dimensions int64*
GatherDimensionNumbers
  1 offset_dims int64*
  2 collapsed_slice_dims int64*
  3 start_index_map int64*
  4 index_vector_dim int64
  5 operand_batching_dims int64*
  6 start_indices_batching_dims int64*
ScatterDimensionNumbers
  1 update_window_dims int64*
  2 inserted_window_dims int64*
  3 scatter_dims_to_operand_dims int64*
  4 index_vector_dim int64
  5 input_batching_dims int64*
  6 scatter_indices_batching_dims int64*
PrecisionConfig
  1 operand_precision enum*
  2 algorithm enum
ResultAccuracy
  1 mode enum
  2 tolerance Tolerance
Tolerance
  1 atol double
  2 rtol double
  3 ulps int64
TriangularSolveOptions
  1 left_side bool
  2 lower bool
  3 unit_diagonal bool
  4 transpose_a enum
CholeskyOptions
  1 lower bool
ReplicaGroup
  1 replica_ids int64*
SourceTarget
  1 source int64
  2 target int64
CollectiveDeviceListProto
  1 replica_groups ReplicaGroup*
  2 iota_replica_group_list IotaReplicaGroupListProto
IotaReplicaGroupListProto
  1 num_replica_groups int64
  2 num_devices_per_group int64
  3 iota_reshape_dims int64*
  4 iota_transpose_perm int32*
OutputOperandAliasing
  1 output_shape_index int64*
  2 operand_index int64
  3 operand_shape_index int64*
ParameterReplication
  1 replicated_at_leaf_buffers bool*
OpSharding
  1 type enum
  3 tile_assignment_dimensions int64*
  4 tile_assignment_devices int64*
  5 tuple_shardings OpSharding*
  6 replicate_on_last_tile_dim bool
  8 last_tile_dims enum*
  9 iota_reshape_dims int64*
  10 iota_transpose_perm int32*
FrontendAttributes
  1 map MapEntry*
MapEntry
  1 key string
  2 value string
DeviceAssignmentProto
  1 replica_count int32
  2 computation_count int32
  3 computation_devices ComputationDevice*
ComputationDevice
  1 replica_device_ids int64*
CompileOptionsProto
  3 executable_build_options ExecutableBuildOptionsProto
  7 env_option_overrides OptionOverrideEntry*
ExecutableBuildOptionsProto
  1 device_ordinal int64
  4 num_replicas int64
  5 num_partitions int64
  9 device_assignment DeviceAssignmentProto
OptionOverrideEntry
  1 key string
  2 value OptionOverrideProto
OptionOverrideProto
  1 string_field string?
  2 bool_field bool?
  3 int_field int64?
  4 double_field double?
HloScheduleProto
  1 sequences SequencesEntry*
SequencesEntry
  1 key int64
  2 value InstructionSequence
InstructionSequence
  1 instruction_ids int64*
HloInputOutputAliasProto
  1 entries AliasEntryProto*
AliasEntryProto
  1 output_shape_index int64*
  2 parameter_number int64
  3 parameter_shape_index int64*
  4 kind enum
HloBufferDonorProto
  1 entries BufferDonorEntryProto*
BufferDonorEntryProto
  1 parameter_number int64
  2 parameter_shape_index int64*
StackFrameIndexProto
  1 file_names string*
  2 function_names string*
  3 file_locations FileLocation*
  4 stack_frames StackFrame*
FileLocation
  1 file_name_id int32
  2 function_name_id int32
  3 line int32
  4 column int32
StackFrame
  1 file_location_id int32
  2 parent_frame_id int32
"""


@record
class Field:
    """One field of a message."""

    number: int
    name: str
    type: str
    repeated: bool
    explicit: bool


@record
class MessageType:
    """One message: its fields, in the order of their numbers."""

    name: str
    by_number: dict[int, Field]

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields."""
        return tuple(self.by_number.values())


@cache
def message_types() -> dict[str, MessageType]:
    """Return the messages by name."""
    types: dict[str, MessageType] = {}
    current: dict[int, Field] = {}
    for line in (_SCHEMA + PROFILE_SCHEMA.lstrip() + IFRT_SCHEMA.lstrip()).strip().splitlines():
        if not line.startswith(" "):
            current = {}
            types[line] = MessageType(line, current)
            continue
        number, name, kind = line.split()
        row = Field(int(number), name, kind.rstrip("*?"), kind.endswith("*"), kind.endswith("?"))
        current[row.number] = row
    return types

# SPDX-License-Identifier: Apache-2.0
"""The PJRT C API as data: every argument struct and the order of the function table.

The records (byte offsets for emitted code, ctypes structures for Python) and the function table
that a host gets follow from the two tables here. Invariant: a field without a kind is a pointer,
every struct of `ARGUMENTS` begins with `struct_size` and `extension_start`, and a test compares
names, order, kinds and sizes with the C header.

Source: xla/pjrt/c/pjrt_c_api.h, version 0.90, the layouts and profiler extensions beside it, and
xla/backends/profiler/plugin/profiler_c_api.h. The shardings extension, attributes of devices and
layouts of parameters are newer than that header.
The FFI extension is left out, so hosts attach no data to executions; foreign calls have a registry
of their own (`ingot.semantics.custom_calls`).
"""

from __future__ import annotations

from functools import cache

from ingot.native.layout import Field, Record

API_MAJOR = 0
API_MINOR = 93
"""jaxlib asks for shardings of executables from 91 on, for attributes of devices from 92, and from
93 for layouts of parameters: before, it had every optimized program written and read for them."""


CANCELLED = 1
INVALID_ARGUMENT = 3
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
UNIMPLEMENTED = 12
INTERNAL = 13
"""The codes of our errors (PJRT_Error_Code, which are absl's)."""


def _words(text: str) -> list[str]:
    return text.split()


STRUCTS = """
PJRT_Extension_Base: struct_size:i64 type:i32 next
PJRT_Api_Version: struct_size:i64 extension_start major_version:i32 minor_version:i32
PJRT_NamedValue: struct_size:i64 extension_start name name_size:i64 type:i32 value:i64
    value_size:i64
PJRT_ProcessInfo: struct_size:i64 task_id:i32 incarnation_id:i64 state:i32 error_code:i32
    error_message error_message_size:i64
PJRT_Program: struct_size:i64 extension_start code code_size:i64 format format_size:i64
PJRT_Buffer_MemoryLayout: layout_struct_size:i64 layout_extension_start kind_struct_size:i64
    kind_extension_start minor_to_major minor_to_major_size:i64 tile_dims tile_dim_sizes
    num_tiles:i64 layout_type:i32
PJRT_ShapeSpec: struct_size:i64 extension_start dims num_dims:i64 element_type:i32
PJRT_Chunk: data size:i64 deleter deleter_arg
PJRT_SendCallbackInfo: channel_id:i64 user_arg send_callback
PJRT_RecvCallbackInfo: channel_id:i64 user_arg recv_callback
PJRT_ExecuteOptions: struct_size:i64 extension_start send_callbacks recv_callbacks
    num_send_ops:i64 num_recv_ops:i64 launch_id:i32 non_donatable_input_indices
    num_non_donatable_input_indices:i64 context call_location num_tasks:i64 task_ids
    incarnation_ids
PJRT_Buffer_CopyRawToHostFuture_Callback: struct_size:i64 callback_data error_code:i32
    error_message error_message_size:i64 dst
PJRT_Buffer_DonateWithControlDependency_Callback: struct_size:i64 callback_data error_code:i32
    error_message error_message_size:i64
PLUGIN_Profiler_Create: struct_size:i64 options options_size:i64 profiler
PLUGIN_Profiler_Destroy: struct_size:i64 profiler
PLUGIN_Profiler_Start: struct_size:i64 profiler
PLUGIN_Profiler_Stop: struct_size:i64 profiler
PLUGIN_Profiler_CollectData: struct_size:i64 profiler buffer buffer_size_in_bytes:i64
"""
"""Structs that are no arguments, or whose second field is no extension, with all their fields. In
a memory layout the union of tiles and strides is spelled as tiles."""

ARGUMENTS = """
PJRT_Error_Destroy: error
PJRT_Error_Message: error message message_size:i64
PJRT_Error_GetCode: error code:i32
PJRT_Plugin_Initialize:
PJRT_Plugin_Attributes: attributes num_attributes:i64
PJRT_Event_Destroy: event
PJRT_Event_IsReady: event is_ready:i8
PJRT_Event_Error: event
PJRT_Event_Await: event
PJRT_Event_OnReady: event callback user_arg
PJRT_Event_Create: event
PJRT_Event_Set: event error_code:i32 error_message error_message_size:i64
PJRT_KeyValueGetCallback: key key_size:i64 timeout_in_ms:i32 callback_error user_arg value
    value_size:i64 value_deleter_callback
PJRT_KeyValueTryGetCallback: key key_size:i64 callback_error user_arg value value_size:i64
    value_deleter_callback
PJRT_KeyValuePutCallback: key key_size:i64 value value_size:i64 callback_error user_arg
PJRT_Client_Create: create_options num_options:i64 kv_get_callback kv_get_user_arg
    kv_put_callback kv_put_user_arg client kv_try_get_callback kv_try_get_user_arg
PJRT_Client_Destroy: client
PJRT_Client_PlatformName: client platform_name platform_name_size:i64
PJRT_Client_ProcessIndex: client process_index:i32
PJRT_Client_PlatformVersion: client platform_version platform_version_size:i64
PJRT_Client_TopologyDescription: client topology
PJRT_Client_Devices: client devices num_devices:i64
PJRT_Client_AddressableDevices: client addressable_devices num_addressable_devices:i64
PJRT_Client_LookupDevice: client id:i32 device
PJRT_Client_LookupAddressableDevice: client local_hardware_id:i32 addressable_device
PJRT_Client_UpdateGlobalProcessInfo: client process_infos num_process_infos:i64
PJRT_Client_AddressableMemories: client addressable_memories num_addressable_memories:i64
PJRT_Client_Compile: client program compile_options compile_options_size:i64 executable
PJRT_Client_DefaultDeviceAssignment: client num_replicas:i32 num_partitions:i32
    default_assignment_size:i64 default_assignment
PJRT_Client_DmaMap: client data size:i64
PJRT_Client_DmaUnmap: client data
PJRT_AsyncHostToDeviceTransferManager_Destroy: transfer_manager
PJRT_AsyncHostToDeviceTransferManager_TransferData: transfer_manager buffer_index:i32 data
    offset:i64 transfer_size:i64 is_last_transfer:i8 done_with_h2d_transfer
PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer: transfer_manager buffer_index:i32
    buffer_out
PJRT_AsyncHostToDeviceTransferManager_Device: transfer_manager device_out
PJRT_AsyncHostToDeviceTransferManager_BufferCount: transfer_manager buffer_count:i64
PJRT_AsyncHostToDeviceTransferManager_BufferSize: transfer_manager buffer_index:i32
    buffer_size:i64
PJRT_AsyncHostToDeviceTransferManager_SetBufferError: transfer_manager buffer_index:i32
    error_code:i32 error_message error_message_size:i64
PJRT_AsyncHostToDeviceTransferManager_AddMetadata: transfer_manager transfer_metadata
    num_metadata:i64
PJRT_AsyncHostToDeviceTransferManager_TransferLiteral: transfer_manager buffer_index:i32 data
    shape_dims shape_num_dims:i64 shape_element_type:i32 shape_layout done_with_h2d_transfer
PJRT_Client_CreateUninitializedBuffer: client shape_dims shape_num_dims:i64
    shape_element_type:i32 shape_layout device memory buffer
PJRT_Client_CreateErrorBuffer: client error_code:i32 error_message error_message_size:i64
    shape_dims shape_num_dims:i64 shape_element_type:i32 shape_layout memory buffer
PJRT_Client_CreateAliasBuffer: client memory shape_dims shape_num_dims:i64
    shape_element_type:i32 shape_layout alias_buffer fulfill_alias_buffer_cb
PJRT_Client_FulfillAliasBuffer: client buffer status_code:i32 error_message
    error_message_size:i64 fulfill_alias_buffer_cb
PJRT_Client_BufferFromHostBuffer: client data type:i32 dims num_dims:i64 byte_strides
    num_byte_strides:i64 host_buffer_semantics:i32 device memory device_layout
    done_with_host_buffer buffer
PJRT_Client_CreateViewOfDeviceBuffer: client device_buffer_ptr dims num_dims:i64
    element_type:i32 layout device on_delete_callback on_delete_callback_arg stream:i64 buffer
    memory
PJRT_Client_CreateBuffersForAsyncHostToDevice: client shape_specs num_shape_specs:i64
    device_layouts num_device_layouts:i64 memory transfer_manager
PJRT_DeviceDescription_Id: device_description id:i32
PJRT_DeviceDescription_ProcessIndex: device_description process_index:i32
PJRT_DeviceDescription_Attributes: device_description num_attributes:i64 attributes
PJRT_DeviceDescription_Kind: device_description device_kind device_kind_size:i64
PJRT_DeviceDescription_DebugString: device_description debug_string debug_string_size:i64
PJRT_DeviceDescription_ToString: device_description to_string to_string_size:i64
PJRT_Device_GetDescription: device device_description
PJRT_Device_IsAddressable: device is_addressable:i8
PJRT_Device_LocalHardwareId: device local_hardware_id:i32
PJRT_Device_AddressableMemories: device memories num_memories:i64
PJRT_Device_DefaultMemory: device memory
PJRT_Device_MemoryStats: device bytes_in_use:i64 peak_bytes_in_use:i64
    peak_bytes_in_use_is_set:i8 num_allocs:i64 num_allocs_is_set:i8 largest_alloc_size:i64
    largest_alloc_size_is_set:i8 bytes_limit:i64 bytes_limit_is_set:i8 bytes_reserved:i64
    bytes_reserved_is_set:i8 peak_bytes_reserved:i64 peak_bytes_reserved_is_set:i8
    bytes_reservable_limit:i64 bytes_reservable_limit_is_set:i8 largest_free_block_bytes:i64
    largest_free_block_bytes_is_set:i8 pool_bytes:i64 pool_bytes_is_set:i8 peak_pool_bytes:i64
    peak_pool_bytes_is_set:i8
PJRT_Device_GetAttributes: device attributes num_attributes:i64 device_attributes
    attributes_deleter
PJRT_Device_PoisonExecution: device launch_id:i32 error_code:i32 error_message
    error_message_size:i64 poisoned:i8
PJRT_Device_CreateAsyncTrackingEvent: device description description_size:i64 event
PJRT_AsyncTrackingEvent_Destroy: event
PJRT_Memory_Id: memory id:i32
PJRT_Memory_Kind: memory kind kind_size:i64
PJRT_Memory_Kind_Id: memory kind_id:i32
PJRT_Memory_DebugString: memory debug_string debug_string_size:i64
PJRT_Memory_ToString: memory to_string to_string_size:i64
PJRT_Memory_AddressableByDevices: memory devices num_devices:i64
PJRT_ExecuteContext_Create: context
PJRT_ExecuteContext_Destroy: context
PJRT_Executable_Destroy: executable
PJRT_LoadedExecutable_Destroy: executable
PJRT_LoadedExecutable_GetExecutable: loaded_executable executable
PJRT_LoadedExecutable_GetDeviceAssignment: executable serialized_bytes serialized_bytes_size:i64
    serialized_device_assignment serialized_device_assignment_deleter
PJRT_Executable_Name: executable executable_name executable_name_size:i64
PJRT_Executable_NumReplicas: executable num_replicas:i64
PJRT_Executable_NumPartitions: executable num_partitions:i64
PJRT_LoadedExecutable_AddressableDevices: executable addressable_devices
    num_addressable_devices:i64
PJRT_Executable_OptimizedProgram: executable program
PJRT_LoadedExecutable_Delete: executable
PJRT_LoadedExecutable_IsDeleted: executable is_deleted:i8
PJRT_LoadedExecutable_Execute: executable options argument_lists num_devices:i64 num_args:i64
    output_lists device_complete_events execute_device
PJRT_Executable_NumOutputs: executable num_outputs:i64
PJRT_Executable_SizeOfGeneratedCodeInBytes: executable size_in_bytes:i64
PJRT_Executable_Fingerprint: executable executable_fingerprint executable_fingerprint_size:i64
PJRT_Executable_GetCostAnalysis: executable num_properties:i64 properties
PJRT_Executable_GetCompiledMemoryStats: executable generated_code_size_in_bytes:i64
    argument_size_in_bytes:i64 output_size_in_bytes:i64 alias_size_in_bytes:i64
    temp_size_in_bytes:i64 host_generated_code_size_in_bytes:i64 host_argument_size_in_bytes:i64
    host_output_size_in_bytes:i64 host_alias_size_in_bytes:i64 host_temp_size_in_bytes:i64
    peak_memory_in_bytes:i64 total_size_in_bytes:i64
PJRT_Executable_OutputElementTypes: executable output_types num_output_types:i64
PJRT_Executable_OutputDimensions: executable num_outputs:i64 dims dim_sizes
PJRT_Executable_OutputMemoryKinds: executable num_outputs:i64 memory_kinds memory_kind_sizes
PJRT_Executable_Serialize: executable serialized_bytes serialized_bytes_size:i64
    serialized_executable serialized_executable_deleter
PJRT_Executable_GetCompileOptions: executable serialized_bytes serialized_bytes_size:i64
    serialized_compile_options serialized_compile_options_deleter
PJRT_Executable_DeserializeAndLoad: client serialized_executable serialized_executable_size:i64
    loaded_executable overridden_serialized_compile_options
    overridden_serialized_compile_options_size:i64
PJRT_LoadedExecutable_Fingerprint: executable executable_fingerprint
    executable_fingerprint_size:i64
PJRT_Buffer_Destroy: buffer
PJRT_Buffer_ElementType: buffer type:i32
PJRT_Buffer_Dimensions: buffer dims num_dims:i64
PJRT_Buffer_UnpaddedDimensions: buffer unpadded_dims num_dims:i64
PJRT_Buffer_DynamicDimensionIndices: buffer dynamic_dim_indices num_dynamic_dims:i64
PJRT_Buffer_GetMemoryLayout: buffer layout_struct_size:i64 layout_extension_start
    kind_struct_size:i64 kind_extension_start minor_to_major minor_to_major_size:i64 tile_dims
    tile_dim_sizes num_tiles:i64 layout_type:i32
PJRT_Buffer_ToHostBuffer: src host_layout dst dst_size:i64 event
PJRT_Buffer_OnDeviceSizeInBytes: buffer on_device_size_in_bytes:i64
PJRT_Buffer_Delete: buffer
PJRT_Buffer_IsDeleted: buffer is_deleted:i8
PJRT_Buffer_CopyRawToHost: buffer dst offset:i64 transfer_size:i64 event
PJRT_Buffer_CopyRawToHostFuture: buffer offset:i64 transfer_size:i64 event callback_data
    future_ready_callback
PJRT_Buffer_CopyToDevice: buffer dst_device dst_buffer
PJRT_Buffer_CopyToMemory: buffer dst_memory dst_buffer
PJRT_Buffer_IsOnCpu: buffer is_on_cpu:i8
PJRT_Buffer_Device: buffer device
PJRT_Buffer_Memory: buffer memory
PJRT_Buffer_ReadyEvent: buffer event
PJRT_Buffer_UnsafePointer: buffer buffer_pointer:i64
PJRT_Buffer_IncreaseExternalReferenceCount: buffer
PJRT_Buffer_DecreaseExternalReferenceCount: buffer
PJRT_Buffer_OpaqueDeviceMemoryDataPointer: buffer device_memory_ptr
PJRT_Buffer_DonateWithControlDependency: buffer callback_data dependency_ready_callback
    out_buffer
PJRT_CopyToDeviceStream_Destroy: stream
PJRT_CopyToDeviceStream_AddChunk: stream chunk transfer_complete
PJRT_CopyToDeviceStream_TotalBytes: stream total_bytes:i64
PJRT_CopyToDeviceStream_GranuleSize: stream granule_size_in_bytes:i64
PJRT_CopyToDeviceStream_CurrentBytes: stream current_bytes:i64
PJRT_TopologyDescription_Create: topology_name topology_name_size:i64 create_options
    num_options:i64 topology
PJRT_TopologyDescription_Destroy: topology
PJRT_TopologyDescription_PlatformVersion: topology platform_version platform_version_size:i64
PJRT_TopologyDescription_PlatformName: topology platform_name platform_name_size:i64
PJRT_TopologyDescription_GetDeviceDescriptions: topology descriptions num_descriptions:i64
PJRT_TopologyDescription_Serialize: topology serialized_bytes serialized_bytes_size:i64
    serialized_topology serialized_topology_deleter
PJRT_TopologyDescription_Deserialize: serialized_topology serialized_topology_size:i64 topology
PJRT_TopologyDescription_Attributes: topology attributes num_attributes:i64
PJRT_Compile: topology program compile_options compile_options_size:i64 client executable
PJRT_Layouts_MemoryLayout_Destroy: layout
PJRT_Layouts_MemoryLayout_Serialize: layout serialized_bytes serialized_bytes_size:i64
    serialized_layout serialized_layout_deleter
PJRT_Layouts_PJRT_Client_GetDefaultLayout: client type:i32 dims num_dims:i64 layout
PJRT_Layouts_PJRT_Buffer_MemoryLayout: buffer layout
PJRT_Layouts_PJRT_Topology_GetDefaultLayout: topology_description type:i32 dims num_dims:i64
    layout
PJRT_Layouts_PJRT_Executable_GetOutputLayouts: executable num_outputs:i64 layouts
PJRT_Layouts_PJRT_Executable_GetParameterLayouts: executable num_parameters:i64 layouts
PJRT_Shardings_PJRT_Executable_ParameterShardings: executable num_parameters:i64 shardings
    sharding_sizes
PJRT_Shardings_PJRT_Executable_OutputShardings: executable num_outputs:i64 shardings
    sharding_sizes
"""
"""The arguments of each function: a pointer to a struct of these fields."""

API = _words("""
PJRT_Error_Destroy PJRT_Error_Message PJRT_Error_GetCode PJRT_Plugin_Initialize
PJRT_Plugin_Attributes PJRT_Event_Destroy PJRT_Event_IsReady PJRT_Event_Error PJRT_Event_Await
PJRT_Event_OnReady PJRT_Client_Create PJRT_Client_Destroy PJRT_Client_PlatformName
PJRT_Client_ProcessIndex PJRT_Client_PlatformVersion PJRT_Client_Devices
PJRT_Client_AddressableDevices PJRT_Client_LookupDevice PJRT_Client_LookupAddressableDevice
PJRT_Client_AddressableMemories PJRT_Client_Compile PJRT_Client_DefaultDeviceAssignment
PJRT_Client_BufferFromHostBuffer PJRT_DeviceDescription_Id PJRT_DeviceDescription_ProcessIndex
PJRT_DeviceDescription_Attributes PJRT_DeviceDescription_Kind PJRT_DeviceDescription_DebugString
PJRT_DeviceDescription_ToString PJRT_Device_GetDescription PJRT_Device_IsAddressable
PJRT_Device_LocalHardwareId PJRT_Device_AddressableMemories PJRT_Device_DefaultMemory
PJRT_Device_MemoryStats PJRT_Memory_Id PJRT_Memory_Kind PJRT_Memory_DebugString
PJRT_Memory_ToString PJRT_Memory_AddressableByDevices PJRT_Executable_Destroy PJRT_Executable_Name
PJRT_Executable_NumReplicas PJRT_Executable_NumPartitions PJRT_Executable_NumOutputs
PJRT_Executable_SizeOfGeneratedCodeInBytes PJRT_Executable_GetCostAnalysis
PJRT_Executable_OutputMemoryKinds PJRT_Executable_OptimizedProgram PJRT_Executable_Serialize
PJRT_LoadedExecutable_Destroy PJRT_LoadedExecutable_GetExecutable
PJRT_LoadedExecutable_AddressableDevices PJRT_LoadedExecutable_Delete
PJRT_LoadedExecutable_IsDeleted PJRT_LoadedExecutable_Execute PJRT_Executable_DeserializeAndLoad
PJRT_LoadedExecutable_Fingerprint PJRT_Buffer_Destroy PJRT_Buffer_ElementType
PJRT_Buffer_Dimensions PJRT_Buffer_UnpaddedDimensions PJRT_Buffer_DynamicDimensionIndices
PJRT_Buffer_GetMemoryLayout PJRT_Buffer_OnDeviceSizeInBytes PJRT_Buffer_Device PJRT_Buffer_Memory
PJRT_Buffer_Delete PJRT_Buffer_IsDeleted PJRT_Buffer_CopyToDevice PJRT_Buffer_ToHostBuffer
PJRT_Buffer_IsOnCpu PJRT_Buffer_ReadyEvent PJRT_Buffer_UnsafePointer
PJRT_Buffer_IncreaseExternalReferenceCount PJRT_Buffer_DecreaseExternalReferenceCount
PJRT_Buffer_OpaqueDeviceMemoryDataPointer PJRT_CopyToDeviceStream_Destroy
PJRT_CopyToDeviceStream_AddChunk PJRT_CopyToDeviceStream_TotalBytes
PJRT_CopyToDeviceStream_GranuleSize PJRT_CopyToDeviceStream_CurrentBytes
PJRT_TopologyDescription_Create PJRT_TopologyDescription_Destroy
PJRT_TopologyDescription_PlatformName PJRT_TopologyDescription_PlatformVersion
PJRT_TopologyDescription_GetDeviceDescriptions PJRT_TopologyDescription_Serialize
PJRT_TopologyDescription_Attributes PJRT_Compile PJRT_Executable_OutputElementTypes
PJRT_Executable_OutputDimensions PJRT_Buffer_CopyToMemory PJRT_Client_CreateViewOfDeviceBuffer
PJRT_Executable_Fingerprint PJRT_Client_TopologyDescription PJRT_Executable_GetCompiledMemoryStats
PJRT_Memory_Kind_Id PJRT_ExecuteContext_Create PJRT_ExecuteContext_Destroy
PJRT_Buffer_CopyRawToHost PJRT_AsyncHostToDeviceTransferManager_Destroy
PJRT_AsyncHostToDeviceTransferManager_TransferData PJRT_Client_CreateBuffersForAsyncHostToDevice
PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer PJRT_AsyncHostToDeviceTransferManager_Device
PJRT_AsyncHostToDeviceTransferManager_BufferCount PJRT_AsyncHostToDeviceTransferManager_BufferSize
PJRT_AsyncHostToDeviceTransferManager_SetBufferError
PJRT_AsyncHostToDeviceTransferManager_AddMetadata PJRT_Client_DmaMap PJRT_Client_DmaUnmap
PJRT_Client_CreateUninitializedBuffer PJRT_Client_UpdateGlobalProcessInfo
PJRT_TopologyDescription_Deserialize PJRT_Client_CreateAliasBuffer PJRT_Client_FulfillAliasBuffer
PJRT_LoadedExecutable_GetDeviceAssignment PJRT_Client_CreateErrorBuffer
PJRT_AsyncHostToDeviceTransferManager_TransferLiteral PJRT_Buffer_CopyRawToHostFuture
PJRT_Device_PoisonExecution PJRT_Device_CreateAsyncTrackingEvent PJRT_AsyncTrackingEvent_Destroy
PJRT_Executable_GetCompileOptions PJRT_Buffer_DonateWithControlDependency PJRT_Event_Create
PJRT_Event_Set PJRT_Device_GetAttributes
""")
"""The functions in the order of struct PJRT_Api."""

LAYOUTS = 4
"""The layouts extension's PJRT_Extension_Type."""

EXTENSIONS = {
    LAYOUTS: _words("""
        PJRT_Layouts_MemoryLayout_Destroy PJRT_Layouts_MemoryLayout_Serialize
        PJRT_Layouts_PJRT_Client_GetDefaultLayout PJRT_Layouts_PJRT_Buffer_MemoryLayout
        PJRT_Layouts_PJRT_Topology_GetDefaultLayout PJRT_Layouts_PJRT_Executable_GetOutputLayouts
        PJRT_Layouts_PJRT_Executable_GetParameterLayouts
    """),
    19: _words("""
        PJRT_Shardings_PJRT_Executable_ParameterShardings
        PJRT_Shardings_PJRT_Executable_OutputShardings
    """),
}
"""The functions of each extension (by PJRT_Extension_Type) in the order of its struct."""

PROFILER = 1
"""The profiler extension's PJRT_Extension_Type. It has a table of its own, with a header of 16."""

PROFILER_API = _words("""
PJRT_Error_Destroy PJRT_Error_Message PJRT_Error_GetCode PLUGIN_Profiler_Create
PLUGIN_Profiler_Destroy PLUGIN_Profiler_Start PLUGIN_Profiler_Stop PLUGIN_Profiler_CollectData
""")
"""The functions in the order of struct PLUGIN_Profiler_Api; an error is laid out as PJRT's."""

HEADER_BYTES = 40
"""Bytes of PJRT_Api before its first function: size, extensions, version."""


def _rows(table: str) -> dict[str, list[Field]]:
    rows: dict[str, list[Field]] = {}
    for line in table.replace("\n    ", " ").strip().splitlines():
        name, _, fields = line.partition(":")
        rows[name] = [_field(text) for text in fields.split()]
    return rows


def _field(text: str) -> Field:
    name, _, kind = text.partition(":")
    return Field(name, kind or "ptr")


@cache
def records() -> dict[str, Record]:
    """Return the record of every struct; those of arguments by their function's name."""
    head = [Field("struct_size", "i64"), Field("extension_start", "ptr")]
    arguments = {name: [*head, *fields] for name, fields in _rows(ARGUMENTS).items()}
    return {name: Record(name, *fields) for name, fields in {**_rows(STRUCTS), **arguments}.items()}


def record(name: str) -> Record:
    """Return the record of a struct, or of a function's arguments.

    Example:
        >>> record("PJRT_Buffer_Device").offset("device")
        24
    """
    return records()[name]


_TYPE_NAMES = _words("""
invalid pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 bf16 c64 c128 f8e5m2 f8e4m3fn f8e4m3b11fnuz
f8e5m2fnuz f8e4m3fnuz s4 u4 token s2 u2 f8e4m3 f8e3m4 f8e8m0fnu f4e2m1fn s1 u1
""")

TYPE_NAMES: dict[int, str] = dict(enumerate(_TYPE_NAMES))
"""PJRT_Buffer_Type to the name in HLO text."""

TYPE_CODES: dict[str, int] = {name: code for code, name in TYPE_NAMES.items()}
"""The name in HLO text to PJRT_Buffer_Type."""

# SPDX-License-Identifier: Apache-2.0
"""Slots that only read: a table of the field of a struct for each result.

Invariant: these functions touch nothing but their arguments and one record, so they are machine
code without exceptions, locks or Python.
"""

from __future__ import annotations

from typing import Any

from ingot.client.pjrt.c_api import record
from ingot.client.pjrt.native_code.emit import slot
from ingot.client.pjrt.records import (
    BUFFER,
    CLIENT,
    DESCRIPTION,
    DEVICE,
    ERROR,
    EXECUTABLE,
    MEMORY,
    TOPOLOGY,
    Error,
)
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.types import PTR
from ingot.llvm.values import zero
from ingot.native.layout import Record
from ingot.native.types import i8

_RECORDS: dict[str, tuple[str, Record]] = {
    "Error": ("error", ERROR),
    "Client": ("client", CLIENT),
    "TopologyDescription": ("topology", TOPOLOGY),
    "DeviceDescription": ("device_description", DESCRIPTION),
    "Device": ("device", DEVICE),
    "Memory": ("memory", MEMORY),
    "Buffer": ("buffer", BUFFER),
    "Executable": ("executable", EXECUTABLE),
    "LoadedExecutable": ("executable", EXECUTABLE),
}

_PLATFORM = "platform_name platform_name_size"
_VERSION = "platform_version platform_version_size"
_FINGERPRINT = "executable_fingerprint=fingerprint executable_fingerprint_size=fingerprint_size"

GETTERS: dict[str, str] = {
    "PJRT_Error_Message": "message message_size",
    "PJRT_Error_GetCode": "code",
    "PJRT_Client_PlatformName": _PLATFORM,
    "PJRT_Client_PlatformVersion": _VERSION,
    "PJRT_Client_ProcessIndex": "process_index",
    "PJRT_Client_TopologyDescription": "topology",
    "PJRT_Client_Devices": "devices num_devices",
    "PJRT_Client_AddressableDevices": (
        "addressable_devices=local_devices num_addressable_devices=num_local_devices"
    ),
    "PJRT_Client_AddressableMemories": (
        "addressable_memories=memories num_addressable_memories=num_memories"
    ),
    "PJRT_TopologyDescription_PlatformName": _PLATFORM,
    "PJRT_TopologyDescription_PlatformVersion": _VERSION,
    "PJRT_TopologyDescription_GetDeviceDescriptions": "descriptions num_descriptions",
    "PJRT_TopologyDescription_Attributes": "attributes num_attributes",
    "PJRT_DeviceDescription_Id": "id",
    "PJRT_DeviceDescription_ProcessIndex": "process_index",
    "PJRT_DeviceDescription_Attributes": "attributes num_attributes",
    "PJRT_DeviceDescription_Kind": "device_kind device_kind_size",
    "PJRT_DeviceDescription_DebugString": "debug_string debug_string_size",
    "PJRT_DeviceDescription_ToString": "to_string to_string_size",
    "PJRT_Device_GetDescription": "device_description=description",
    "PJRT_Device_IsAddressable": "is_addressable",
    "PJRT_Device_LocalHardwareId": "local_hardware_id",
    "PJRT_Device_AddressableMemories": "memories num_memories",
    "PJRT_Device_DefaultMemory": "memory=default_memory",
    "PJRT_Memory_Id": "id",
    "PJRT_Memory_Kind": "kind kind_size",
    "PJRT_Memory_Kind_Id": "kind_id",
    "PJRT_Memory_DebugString": "debug_string debug_string_size",
    "PJRT_Memory_ToString": "to_string to_string_size",
    "PJRT_Memory_AddressableByDevices": "devices num_devices",
    "PJRT_Buffer_ElementType": "type",
    "PJRT_Buffer_Dimensions": "dims num_dims=rank",
    "PJRT_Buffer_UnpaddedDimensions": "unpadded_dims=dims num_dims=rank",
    "PJRT_Buffer_OnDeviceSizeInBytes": "on_device_size_in_bytes=bytes",
    "PJRT_Buffer_IsDeleted": "is_deleted=deleted",
    "PJRT_Buffer_Device": "device",
    "PJRT_Buffer_Memory": "memory",
    "PJRT_Executable_Name": "executable_name=name executable_name_size=name_size",
    "PJRT_Executable_NumReplicas": "num_replicas",
    "PJRT_Executable_NumPartitions": "num_partitions",
    "PJRT_Executable_NumOutputs": "num_outputs",
    "PJRT_Executable_SizeOfGeneratedCodeInBytes": "size_in_bytes=code_bytes",
    "PJRT_Executable_Fingerprint": _FINGERPRINT,
    "PJRT_LoadedExecutable_Fingerprint": _FINGERPRINT,
    "PJRT_Executable_OutputElementTypes": "output_types num_output_types=num_outputs",
    "PJRT_Executable_OutputDimensions": ("num_outputs dims=output_dims dim_sizes=output_ranks"),
    "PJRT_Executable_OutputMemoryKinds": "num_outputs memory_kinds memory_kind_sizes",
    "PJRT_LoadedExecutable_AddressableDevices": (
        "addressable_devices=devices num_addressable_devices=num_devices"
    ),
    "PJRT_LoadedExecutable_IsDeleted": "is_deleted=deleted",
}
"""Per slot: results, as `result=field of the record`, or one name if both are equal."""


def emit_getters(module: ModuleBuilder) -> None:
    """Add every slot of the table to `module`."""
    for name, results in GETTERS.items():
        argument, layout = _RECORDS[name.split("_")[1]]
        given = record(name)
        f = module.function(name, PTR, [("args", PTR)])
        (args,) = f.params
        object_ = given.load(f, args, argument)
        for result in results.split():
            target, _, field = result.partition("=")
            given.store(f, args, target, layout.load(f, object_, field or target))
        f.ret(zero(PTR))


@slot("PJRT_Plugin_Initialize")
def initialize_slot(args: Any) -> Error | None:
    return None


@slot("PJRT_Buffer_IsOnCpu")
def is_on_cpu_slot(args: Any) -> Error | None:
    args.is_on_cpu = i8(args.buffer.device.gpu is None)
    return None


@slot("PJRT_Buffer_DynamicDimensionIndices")
def dynamic_dimensions_slot(args: Any) -> Error | None:
    args.dynamic_dim_indices = None
    args.num_dynamic_dims = 0
    return None

/* A host in C: loads the library, compiles a program, runs it, prints the result.
   Usage: host LIBRARY PROGRAM   (a StableHLO file; takes and gives f32[2,3]) */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla/pjrt/c/pjrt_c_api.h"

static const PJRT_Api* api;

static void check(PJRT_Error* error) {
  if (!error) return;
  PJRT_Error_Message_Args message = {PJRT_Error_Message_Args_STRUCT_SIZE, NULL, error};
  api->PJRT_Error_Message(&message);
  fprintf(stderr, "%.*s\n", (int)message.message_size, message.message);
  exit(1);
}

#define CALL(name, ...)                                                           \
  PJRT_##name##_Args name = {.struct_size = PJRT_##name##_Args_STRUCT_SIZE, __VA_ARGS__}; \
  check(api->PJRT_##name(&name))

int main(int count, char** arguments) {
  if (count != 3) return 2;
  void* library = dlopen(arguments[1], RTLD_NOW);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
  const PJRT_Api* (*get)(void) = (const PJRT_Api* (*)(void))dlsym(library, "GetPjrtApi");
  if (!get || !(api = get())) return fprintf(stderr, "no table\n"), 1;

  static char code[1 << 20];
  FILE* file = fopen(arguments[2], "rb");
  size_t size = fread(code, 1, sizeof code, file);
  fclose(file);

  CALL(Plugin_Initialize, 0);
  CALL(Client_Create, 0);
  CALL(Client_AddressableDevices, .client = Client_Create.client);
  PJRT_Program program = {PJRT_Program_STRUCT_SIZE, NULL, code, size, "mlir", 4};
  CALL(Client_Compile, .client = Client_Create.client, .program = &program);

  float values[6] = {0, 1, 2, 3, 4, 5};
  int64_t dims[2] = {2, 3};
  CALL(Client_BufferFromHostBuffer, .client = Client_Create.client, .data = values,
       .type = PJRT_Buffer_Type_F32, .dims = dims, .num_dims = 2,
       .device = Client_AddressableDevices.addressable_devices[0]);
  CALL(Event_Await, .event = Client_BufferFromHostBuffer.done_with_host_buffer);

  PJRT_Buffer* input = Client_BufferFromHostBuffer.buffer;
  PJRT_Buffer* output = NULL;
  PJRT_Buffer* const* inputs[1] = {&input};
  PJRT_Buffer** outputs[1] = {&output};
  PJRT_ExecuteOptions options = {.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE};
  CALL(LoadedExecutable_Execute, .executable = Client_Compile.executable, .options = &options,
       .argument_lists = inputs, .num_devices = 1, .num_args = 1, .output_lists = outputs);

  float results[6];
  CALL(Buffer_ToHostBuffer, .src = output, .dst = results, .dst_size = sizeof results);
  PJRT_Event_Await_Args done = {PJRT_Event_Await_Args_STRUCT_SIZE, NULL, Buffer_ToHostBuffer.event};
  check(api->PJRT_Event_Await(&done));
  for (int i = 0; i < 6; i++) printf("%g%c", results[i], i < 5 ? ' ' : '\n');
  return 0;
}

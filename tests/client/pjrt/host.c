// SPDX-License-Identifier: Apache-2.0
/* A host in C: loads the library, compiles a program, runs it on two threads, prints the result.
   Usage: host LIBRARY PROGRAM   (a StableHLO file; takes and gives f32[2,3]) */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla/pjrt/c/pjrt_c_api.h"

#define THREADS 2
#define RUNS 300

static const PJRT_Api* api;
static PJRT_Client* client;
static PJRT_Device* device;
static PJRT_LoadedExecutable* executable;

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

static void await(PJRT_Event* event) {
  CALL(Event_Await, .event = event);
  CALL(Event_Destroy, .event = event);
}

static void run(float* results) {
  float values[6] = {0, 1, 2, 3, 4, 5};
  int64_t dims[2] = {2, 3};
  CALL(Client_BufferFromHostBuffer, .client = client, .data = values,
       .type = PJRT_Buffer_Type_F32, .dims = dims, .num_dims = 2, .device = device);
  await(Client_BufferFromHostBuffer.done_with_host_buffer);

  PJRT_Buffer* buffers[2] = {Client_BufferFromHostBuffer.buffer, NULL};
  PJRT_Buffer* const* inputs[1] = {&buffers[0]};
  PJRT_Buffer** outputs[1] = {&buffers[1]};
  PJRT_ExecuteOptions options = {.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE};
  CALL(LoadedExecutable_Execute, .executable = executable, .options = &options,
       .argument_lists = inputs, .num_devices = 1, .num_args = 1, .output_lists = outputs);

  CALL(Buffer_ToHostBuffer, .src = buffers[1], .dst = results, .dst_size = 6 * sizeof *results);
  await(Buffer_ToHostBuffer.event);
  for (int i = 0; i < 2; i++) {
    CALL(Buffer_Destroy, .buffer = buffers[i]);
  }
}

static void* run_often(void* expected) {
  for (int i = 0; i < RUNS; i++) {
    float results[6];
    run(results);
    if (memcmp(results, expected, sizeof results)) return "two threads, two results";
  }
  return NULL;
}

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
  client = Client_Create.client;
  CALL(Client_AddressableDevices, .client = client);
  device = Client_AddressableDevices.addressable_devices[0];
  PJRT_Program program = {PJRT_Program_STRUCT_SIZE, NULL, code, size, "mlir", 4};
  CALL(Client_Compile, .client = client, .program = &program);
  executable = Client_Compile.executable;

  float results[6];
  run(results);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, run_often, results);
  for (int i = 0; i < THREADS; i++) {
    void* problem;
    pthread_join(threads[i], &problem);
    if (problem) return fprintf(stderr, "%s\n", (char*)problem), 1;
  }
  CALL(LoadedExecutable_Destroy, .executable = executable);
  CALL(Client_Destroy, .client = client);
  for (int i = 0; i < 6; i++) printf("%g%c", results[i], i < 5 ? ' ' : '\n');
  return 0;
}

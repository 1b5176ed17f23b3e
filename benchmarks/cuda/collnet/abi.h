// The two tables by which NCCL calls a plug-in, version 11: the newest that NCCL 2.28 and 2.29 know. 2.30 accepts it
// too. They are declared here because the project has no headers of NVIDIA. Only the layout is theirs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace collnet {

enum Result : int { kSuccess = 0, kSystemError = 2, kInternalError = 3 };

constexpr int kPointerHost = 1, kSum = 0, kFloat32 = 7, kBfloat16 = 9;  // NCCL's numbers
constexpr size_t kHandleBytes = 128;                                    // what NCCL carries from listen to connect

struct Properties {
  const char* name;
  const char* pci_path;
  uint64_t guid;
  int pointer_support, registration_is_global, force_flush, speed_mbps, port;
  float latency;
  int max_comms, max_receives, device_type, device_version;
  struct {
    int count, devices[4];
  } virtual_devices;
  size_t max_message_bytes, max_collective_bytes;
  int max_multi_request;
};

using Logger = void (*)(int level, unsigned long topics, const char* file, int line, const char* format, ...);

struct Net {
  const char* name;
  Result (*init)(void** context, uint64_t id, void* config, Logger, void* profiler);
  Result (*devices)(int* count);
  Result (*get_properties)(int device, Properties*);
  Result (*listen)(void* context, int device, void* handle, void** listener);
  Result (*connect)(void* context, int device, void* handle, void** stream, void** device_stream);
  Result (*accept)(void* listener, void** stream, void** device_stream);
  Result (*register_memory)(void* stream, void* data, size_t size, int type, void** memory);
  Result (*register_dmabuf)(void* stream, void* data, size_t, int type, uint64_t offset, int fd, void** memory);
  Result (*deregister_memory)(void* stream, void* memory);
  Result (*send)(void* stream, void* data, size_t size, int tag, void* memory, void* profiler, void** request);
  Result (*receive)(void* stream, int n, void** data, size_t* sizes, int* tags, void**, void**, void** request);
  Result (*flush)(void* stream, int n, void** data, int* sizes, void** memory, void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*close_send)(void* stream);
  Result (*close_receive)(void* stream);
  Result (*close_listen)(void* listener);
  void *get_device_memory, *receive_consumed, *make_virtual_device;  // may be null
  Result (*finalize)(void* context);
  void* set_attributes;  // may be null
};

struct CollNet {
  const char* name;
  Result (*init)(void** context, uint64_t id, Logger);
  Result (*devices)(int* count);
  Result (*get_properties)(int device, Properties*);
  Result (*listen)(void* context, int device, void* handle, void** listener);
  Result (*connect)(void* handles[], int ranks, int rank, void* listener, void** group);
  Result (*reduce_support)(int type, int operation, int* supported);
  Result (*register_memory)(void* group, void* data, size_t size, int type, void** memory);
  Result (*register_dmabuf)(void* group, void* data, size_t, int type, uint64_t offset, int fd, void** memory);
  Result (*deregister_memory)(void* group, void* memory);
  Result (*all_reduce)(void* group, void* send, void* receive, size_t count, int type, int operation, void*, void*,
                       void** request);
  void *all_gather, *reduce_scatter;  // may be null: NCCL then does them without CollNet
  Result (*flush)(void* group, void* data, int size, void* memory, void** request);
  Result (*test)(void* request, int* done, int* size);
  Result (*close_group)(void* group);
  Result (*close_listen)(void* listener);
  void* make_virtual_device;  // may be null
  Result (*finalize)(void* context);
};

}  // namespace collnet

// libibverbs, loaded when it is first used. A host without it must still load jaxina, so nothing is linked against it:
// the functions of its header that jaxina calls are defined here, and each calls libibverbs's own.
#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <string>

#include "rdma_engine/errors.h"

// The header has macros of these names in front of the functions.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

namespace {

using jaxina::Error;
using jaxina::ErrorCode;

void* library() {
  // Never closed: its objects live as long as the process.
  static void* const loaded = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "the verbs transport needs libibverbs, which is not on this host (Debian: libibverbs1 ibverbs-providers)");
  }
  return loaded;
}

template <typename Function>
Function* find(const char* name) {
  void* const address = dlsym(library(), name);
  if (address == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, std::string("this host's libibverbs is too old, it has no ") + name);
  }
  return reinterpret_cast<Function*>(address);
}

}  // namespace

#define FORWARD(result, name, parameters, ...)                 \
  result name parameters {                                     \
    static auto* const function = find<decltype(name)>(#name); \
    return function(__VA_ARGS__);                              \
  }

extern "C" {

FORWARD(ibv_device**, ibv_get_device_list, (int* count), count)
FORWARD(void, ibv_free_device_list, (ibv_device * *list), list)
FORWARD(const char*, ibv_get_device_name, (ibv_device * device), device)
FORWARD(ibv_context*, ibv_open_device, (ibv_device * device), device)
FORWARD(int, ibv_close_device, (ibv_context * context), context)
FORWARD(int, ibv_query_device, (ibv_context * context, ibv_device_attr* attributes), context, attributes)
FORWARD(int, ibv_query_port, (ibv_context * context, std::uint8_t port, _compat_ibv_port_attr* attributes), context,
        port, attributes)
FORWARD(int, _ibv_query_gid_ex,
        (ibv_context * context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry, std::uint32_t flags,
         std::size_t entry_size),
        context, port, index, entry, flags, entry_size)
FORWARD(ibv_pd*, ibv_alloc_pd, (ibv_context * context), context)
FORWARD(int, ibv_dealloc_pd, (ibv_pd * domain), domain)
FORWARD(ibv_mr*, ibv_reg_mr, (ibv_pd * domain, void* memory, std::size_t bytes, int access), domain, memory, bytes,
        access)
FORWARD(ibv_mr*, ibv_reg_dmabuf_mr,
        (ibv_pd * domain, std::uint64_t offset, std::size_t bytes, std::uint64_t address, int file, int access), domain,
        offset, bytes, address, file, access)
FORWARD(int, ibv_dereg_mr, (ibv_mr * region), region)
FORWARD(ibv_comp_channel*, ibv_create_comp_channel, (ibv_context * context), context)
FORWARD(int, ibv_destroy_comp_channel, (ibv_comp_channel * channel), channel)
FORWARD(ibv_cq*, ibv_create_cq,
        (ibv_context * context, int entries, void* cookie, ibv_comp_channel* channel, int vector), context, entries,
        cookie, channel, vector)
FORWARD(int, ibv_destroy_cq, (ibv_cq * queue), queue)
FORWARD(int, ibv_get_cq_event, (ibv_comp_channel * channel, ibv_cq** queue, void** cookie), channel, queue, cookie)
FORWARD(void, ibv_ack_cq_events, (ibv_cq * queue, unsigned int events), queue, events)
FORWARD(ibv_srq*, ibv_create_srq, (ibv_pd * domain, ibv_srq_init_attr* attributes), domain, attributes)
FORWARD(int, ibv_destroy_srq, (ibv_srq * queue), queue)
FORWARD(ibv_qp*, ibv_create_qp, (ibv_pd * domain, ibv_qp_init_attr* attributes), domain, attributes)
FORWARD(int, ibv_modify_qp, (ibv_qp * pair, ibv_qp_attr* attributes, int mask), pair, attributes, mask)
FORWARD(int, ibv_destroy_qp, (ibv_qp * pair), pair)
FORWARD(const char*, ibv_wc_status_str, (ibv_wc_status status), status)

}  // extern "C"

# Sourced. `gpu_sources` prints a digest of the sources that `make gpu-wheels` builds. By it `make gpu-check` knows whether
# what was built is of the checkout at hand.
gpu_sources() {
  find CMakeLists.txt cmake cuda_kernels cuda_plugin jaxina p4/controller rdma_engine xla_ffi tests/cuda benchmarks/cuda \
    -type f \( -name '*.cc' -o -name '*.cu' -o -name '*.h' -o -name '*.cmake' -o -name CMakeLists.txt -o -name '*.py' \
    -o -name '*.proto' \) ! -name '*_pb2*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16
}

// The functions that fill the Python extension jaxina._native; bind_NAME is defined in bind_NAME.cc.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "rdma_engine/errors.h"

namespace jaxina {

void bind_all_reduce(nanobind::module_& m);
void bind_engine(nanobind::module_& m);
void bind_frame_switch(nanobind::module_& m);
void bind_gpu(nanobind::module_& m);
void bind_group(nanobind::module_& m);
void bind_host(nanobind::module_& m);
void bind_mpi(nanobind::module_& m);
void bind_numerics(nanobind::module_& m);
void bind_roce_switch(nanobind::module_& m);
void bind_shape(nanobind::module_& m);
void bind_sim(nanobind::module_& m);
void bind_switch(nanobind::module_& m);

// Registers the translation of jaxina::Error into the Python class that jaxina/errors.py has for its code.
void bind_errors(nanobind::module_& m);

// Returns the code with this name. Throws Error(kInvalidArgument) if there is none.
ErrorCode error_code_named(std::string_view name);

// Converts a Python exception: a JaxinaError keeps its code, any other becomes kSystem. The caller must hold the GIL.
Error to_native(const nanobind::python_error& error);

}  // namespace jaxina

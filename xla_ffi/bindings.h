// What each source file adds to the one Python extension, jaxina._native.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "rdma_engine/errors.h"

namespace jaxina {

void bind_all_reduce(nanobind::module_& m);
void bind_engine(nanobind::module_& m);
void bind_gpu(nanobind::module_& m);
void bind_mpi(nanobind::module_& m);
void bind_numerics(nanobind::module_& m);
void bind_roce_switch(nanobind::module_& m);
void bind_shape(nanobind::module_& m);
void bind_sim(nanobind::module_& m);
void bind_switch(nanobind::module_& m);

// Makes jaxina::Error the Python class that jaxina/errors.py has for its code.
void bind_errors(nanobind::module_& m);

// The code with this name; throws Error(kInvalidArgument) if there is none.
ErrorCode error_code_named(std::string_view name);

// A Python exception as a native one: a JaxinaError keeps its code, anything else becomes kSystem. Needs the GIL.
Error to_native(const nanobind::python_error& error);

}  // namespace jaxina

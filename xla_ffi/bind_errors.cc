// Translates errors in both directions: a native Error becomes a class of jaxina.errors, and the other way round.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <exception>
#include <string>

#include "xla_ffi/bindings.h"

namespace jaxina {

namespace nb = nanobind;

namespace {

void raise_in_python(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    const Status& status = error.status();
    const nb::object instance =
        nb::module_::import_("jaxina.errors").attr("from_code")(to_string(status.code), status.message);
    PyErr_SetObject(instance.type().ptr(), instance.ptr());
  }
}

}  // namespace

void bind_errors(nb::module_&) { nb::register_exception_translator(raise_in_python); }

ErrorCode error_code_named(std::string_view name) {
  for (int code = 1; code <= static_cast<int>(kLastErrorCode); ++code) {
    if (to_string(static_cast<ErrorCode>(code)) == name) return static_cast<ErrorCode>(code);
  }
  throw Error(ErrorCode::kInvalidArgument, "there is no error code " + std::string(name));
}

Error to_native(const nb::python_error& error) {
  const nb::handle value = error.value();
  if (nb::isinstance(value, nb::module_::import_("jaxina.errors").attr("JaxinaError"))) {
    return Error(error_code_named(nb::cast<std::string>(value.attr("code"))),
                 nb::cast<std::string>(value.attr("message")));
  }
  return Error(ErrorCode::kSystem, error.what());
}

}  // namespace jaxina

// The part of graphex._core that reads GGUF files.
#pragma once

#include <nanobind/nanobind.h>

namespace graphex::python {

void define_gguf(nanobind::module_& m);

}  // namespace graphex::python

// What may be asked of a generated loop. Front ends check here before they build a spec; code generation validates
// again, because a malformed spec would become wrong machine code.
#pragma once

#include <string_view>

#include "graphex/codegen/loop_spec.h"

namespace graphex::codegen {

// Whether kernels/scalar has `function` for arguments of type `compute`, and how many arguments it takes.
bool scalar_available(std::string_view function, DType compute);
int scalar_arity(std::string_view function);  // 0: no such function
bool scalar_is_predicate(std::string_view function);

// The type whose registers hold values of `dtype`: f32 for floats of 16 bits, else itself.
constexpr DType register_type(DType dtype) { return is_reduced_float(dtype) ? DType::kF32 : dtype; }

// Throws Error(kInternal) that names the first malformed instruction.
void validate(const LoopSpec& spec);

}  // namespace graphex::codegen

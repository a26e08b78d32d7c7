// A build under a sanitizer instruments its kernels too: by the sanitizer of the build, in the JIT's own pipeline.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>

#include <string_view>

namespace graphex::codegen {

// "address" or "thread" as this library was built, else empty. Objects of different sanitizers don't mix.
std::string_view sanitizer();

// Asks for the instrumentation of every function of `module`, and has `builder` add it after optimisation.
void instrument(llvm::Module& module, llvm::PassBuilder& builder);

// Whether `name` belongs to the sanitizer's runtime, which a process built with it has.
bool is_sanitizer_symbol(std::string_view name);

}  // namespace graphex::codegen

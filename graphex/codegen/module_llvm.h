// Builds the LLVM module of one kernel request, and turns a module into an object file.
#pragma once

#include <llvm/IR/Module.h>

#include <string>
#include <string_view>

#include "graphex/codegen/compiler.h"
#include "graphex/codegen/target_llvm.h"

namespace graphex::codegen {

// A context that keeps LLVM's error messages for `throw_diagnosed` instead of printing them and ending the process.
std::unique_ptr<llvm::LLVMContext> make_context();
void throw_diagnosed(const llvm::Module& module);

// Defines what `module` declares and the blob `name` defines at `isa`, with whatever those functions need; all of it
// becomes internal to the module, so that it can be inlined and dropped. Functions marked always_inline are inlined.
void link_blob(llvm::Module& module, std::string_view name, Isa isa);

// The symbol of a request's GxKernel function; + "_tiles", "_workspace" and "_divisible" are its companions.
std::string entry_name(const KernelRequest& request);
// The request's code before optimisation: knobs set, everything but the entry and its companions internal.
std::unique_ptr<llvm::Module> build_module(const KernelRequest& request, const Target& target,
                                           llvm::LLVMContext& context);
// Runs the O3 pipeline and the code generator. `module` is used up.
std::string compile_module(llvm::Module& module, const Target& target);

}  // namespace graphex::codegen

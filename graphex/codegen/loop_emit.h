// A loop's spec as LLVM code: the functions `entry` (GxKernel) and entry + "_tiles" (GxTiles) in `module`. They call
// functions that the blob "scalar" defines; link it before optimising.
#pragma once

#include <llvm/IR/Module.h>

#include <string>

#include "graphex/codegen/loop_spec.h"

namespace graphex::codegen {

void emit_loop(const LoopSpec& spec, const std::string& entry, llvm::Module& module);

}  // namespace graphex::codegen

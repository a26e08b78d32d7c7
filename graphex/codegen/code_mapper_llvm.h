// JITLink's memory, made executable by CodeMemory.
#pragma once

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>

#include <memory>
#include <string>

namespace graphex::codegen {

// Its code lives until the manager ends. `folder` is CodeMemory's.
std::unique_ptr<llvm::jitlink::JITLinkMemoryManager> make_memory_manager(const std::string& folder);

}  // namespace graphex::codegen

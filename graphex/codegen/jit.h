// Links object files into this process with JITLink. Thread-safe; the code lives as long as the Jit. Starts no threads.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graphex/base/kernel_abi.h"

namespace graphex::codegen {

struct LinkedKernel {
  GxKernel run = nullptr;
  GxTiles tiles = nullptr;
  GxWorkspace workspace = nullptr;
  GxDivisible divisible = nullptr;
};

class Jit {
 public:
  // `code_folder` is CodeMemory's.
  explicit Jit(const std::string& code_folder = {});
  ~Jit();
  Jit(const Jit&) = delete;
  Jit& operator=(const Jit&) = delete;

  // Every object has a name space of its own. Throws with the names that the object needs and nobody defines.
  LinkedKernel link(const std::string& object, const std::string& entry);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What generated code may call: memory functions and the few conversions that a level may lack instructions for.
struct RuntimeSymbol {
  const char* name;
  void* address;
};
std::span<const RuntimeSymbol> runtime_symbols();

}  // namespace graphex::codegen

// What machine code is made for: a level, and either exactly that level or all that this host's processor adds to it.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <optional>
#include <string>

#include "graphex/codegen/isa.h"

namespace graphex::codegen {

struct Target {
  Isa isa;               // chooses the bitcode
  std::string cpu;       // LLVM's name
  std::string features;  // "+avx2,-sse4a,..."; empty when the cpu's name says it all
  int vector_width;      // widest vectors, in bits, that the optimiser should choose by itself
};

// Exactly `isa`, without anything else that the host may have.
Target level_target(Isa isa);
// This host with all its features, or level_target(*cap). Throws if the host lacks the cap.
Target host_target(std::optional<Isa> cap);
// Registers LLVM's x86 back end once, then makes a machine; not to be shared between threads.
std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& target);

}  // namespace graphex::codegen

// Turns kernel requests into machine code of this process: kernel bitcode with its knobs set, or a generated loop,
// optimised for this host by LLVM, linked by JITLink and kept as an object file on disk for the next process.
//
// Equal requests share one kernel. A compiler is thread-safe and owns its kernels' code: hold it as long as any of them
// may run. Folders and files of the cache that somebody else could have written are never loaded; a cache that can't be
// used costs time and one line on stderr, never a result.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graphex/base/kernel_abi.h"
#include "graphex/codegen/isa.h"

namespace graphex::codegen {

struct LoopSpec;  // loop_spec.h

// A kernel of graphex/kernels: the extern "C" function `entry` of the blob `module`, with GxKernel's signature. The
// blob may also define entry + "_tiles" (GxTiles), "_workspace" (GxWorkspace), "_divisible" (GxDivisible). `knobs`
// gives a value to each `extern const int64_t` of the module that the entry reads.
struct HandKernel {
  std::string module;
  std::string entry;
  std::vector<std::pair<std::string, int64_t>> knobs;
};

struct LoopKernel {
  std::shared_ptr<const LoopSpec> spec;
};

using KernelRequest = std::variant<HandKernel, LoopKernel>;

struct Kernel {
  GxKernel run = nullptr;
  GxTiles tiles = nullptr;          // null when the request defines none
  GxWorkspace workspace = nullptr;  // null when the request defines none
  GxDivisible divisible = nullptr;  // null when the request defines none
  std::string name;
};

struct CompilerOptions {
  std::optional<Isa> isa = {};  // caps the level; unset: GRAPHEX_ISA, and without it everything the host has
  std::string cache_dir = {};   // empty: $GRAPHEX_CACHE_DIR, else ~/.cache/graphex
  bool use_cache = true;
  int threads = 0;  // 0: as many as this process may run on
};

struct CompilerStats {
  int compiled = 0;        // by LLVM
  int from_cache = 0;      // objects loaded from disk
  int reused = 0;          // requests answered by a kernel that this compiler already had
  int cache_rejected = 0;  // truncated, damaged or foreign cache files, ignored and replaced
  double seconds = 0;      // spent in compile(), by the caller's clock
};

class KernelCompiler {
 public:
  explicit KernelCompiler(CompilerOptions options = {});
  ~KernelCompiler();
  KernelCompiler(const KernelCompiler&) = delete;
  KernelCompiler& operator=(const KernelCompiler&) = delete;

  // One kernel per request, in order; what is missing is compiled in parallel. Throws the first failure in order.
  std::vector<Kernel> compile(std::span<const KernelRequest> requests);

  CompilerStats stats() const;
  Isa isa() const;
  std::string cpu_name() const;
  // Why the object cache is not in use ("" when it is); for reports.
  std::string cache_problem() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// An entry of the embedded kernels, with the knobs of its module.
struct KernelEntry {
  std::string module;
  std::string entry;
  std::vector<std::string> knobs;
};
std::vector<KernelEntry> kernel_entries(Isa isa);

// The ELF object that compile() would link on a host of exactly this level; any host can make it.
std::string compile_to_object(const KernelRequest& request, Isa isa);
// Names that an object needs from outside and that compile() would not find: empty for a sound kernel.
std::vector<std::string> unresolved_symbols(const std::string& object);

}  // namespace graphex::codegen

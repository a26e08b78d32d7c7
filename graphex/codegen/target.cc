#include <llvm/ADT/StringMap.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <mutex>
#include <vector>

#include "graphex/base/error.h"
#include "graphex/codegen/target_llvm.h"

namespace graphex::codegen {
namespace {

constexpr char kTriple[] = "x86_64-pc-linux-gnu";

using Features = llvm::StringMap<bool, llvm::MallocAllocator>;

bool has_all(const Features& host, std::initializer_list<const char*> names) {
  return std::all_of(names.begin(), names.end(), [&](const char* name) { return host.lookup(name); });
}

bool has_level(const Features& host, Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return has_all(host, {"cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"});
    case Isa::kAvx2:
      return has_level(host, Isa::kGeneric) &&
             has_all(host, {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"});
    case Isa::kAvx512:
      return has_level(host, Isa::kAvx2) &&
             has_all(host, {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vnni"});
    case Isa::kAvx512Bf16:
      return has_level(host, Isa::kAvx512) && has_all(host, {"avx512bf16"});
  }
  return false;
}

// Sorted, so that the text can be a part of a cache key.
std::string feature_text(const Features& host) {
  std::vector<std::string> parts;
  for (const auto& feature : host) parts.push_back((feature.second ? "+" : "-") + feature.first().str());
  std::sort(parts.begin(), parts.end());
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

// The generations of AVX-512 that have VNNI run 512-bit vectors with little of the clock penalty of the first one.
int preferred_width(Isa isa) { return isa >= Isa::kAvx512 ? 512 : isa == Isa::kAvx2 ? 256 : 128; }

}  // namespace

std::string_view name_of(Isa isa) {
  constexpr std::string_view kNames[] = {"generic", "avx2", "avx512", "avx512bf16"};
  return kNames[static_cast<int>(isa)];
}

std::optional<Isa> parse_isa(std::string_view text) {
  if (text.empty() || text == "native") return std::nullopt;
  for (const Isa isa : kIsas)
    if (text == name_of(isa)) return isa;
  fail(ErrorKind::kInvalidArgument, "GRAPHEX_ISA is '", text,
       "'; expected generic, avx2, avx512, avx512bf16 or native");
}

Isa host_isa() {
  const auto host = llvm::sys::getHostCPUFeatures();
  for (const Isa isa : {Isa::kAvx512Bf16, Isa::kAvx512, Isa::kAvx2, Isa::kGeneric})
    if (has_level(host, isa)) return isa;
  fail(ErrorKind::kUnsupported, "this processor (", llvm::sys::getHostCPUName().str(),
       ") is not supported: graphex needs x86-64-v2 (SSE4.2 and POPCNT), the level of machines since 2009");
}

Isa detect_isa() {
  const char* text = std::getenv("GRAPHEX_ISA");
  return host_target(parse_isa(text ? text : "")).isa;
}

Target level_target(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return {isa, "x86-64-v2", "", preferred_width(isa)};
    case Isa::kAvx2:
      return {isa, "x86-64-v3", "", preferred_width(isa)};
    case Isa::kAvx512:
      return {isa, "x86-64-v4", "+avx512vnni", preferred_width(isa)};
    case Isa::kAvx512Bf16:
      return {isa, "x86-64-v4", "+avx512bf16,+avx512vnni", preferred_width(isa)};
  }
  fail(ErrorKind::kInternal, "unknown instruction set level ", static_cast<int>(isa));
}

Target host_target(std::optional<Isa> cap) {
  const Isa host = host_isa();
  if (!cap) {
    return {host, llvm::sys::getHostCPUName().str(), feature_text(llvm::sys::getHostCPUFeatures()),
            preferred_width(host)};
  }
  if (*cap > host) {
    fail(ErrorKind::kUnsupported, "the instruction set level '", name_of(*cap), "' was asked for, but this processor (",
         llvm::sys::getHostCPUName().str(), ") has only '", name_of(host), "'; use GRAPHEX_ISA=", name_of(host),
         " or native");
  }
  return level_target(*cap);
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& target) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
  });
  std::string problem;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(kTriple, problem);
  if (!backend) fail(ErrorKind::kInternal, "LLVM has no x86-64 code generator: ", problem);
  return std::unique_ptr<llvm::TargetMachine>(
      backend->createTargetMachine(kTriple, target.cpu, target.features, llvm::TargetOptions(), llvm::Reloc::PIC_,
                                   llvm::CodeModel::Small, llvm::CodeGenOptLevel::Aggressive, /*JIT=*/true));
}

}  // namespace graphex::codegen

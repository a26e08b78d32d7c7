#include <llvm/Transforms/Instrumentation/AddressSanitizer.h>
#include <llvm/Transforms/Instrumentation/ThreadSanitizer.h>

#include "graphex/codegen/sanitize_llvm.h"

namespace graphex::codegen {
namespace {

#if __has_feature(address_sanitizer)
constexpr std::string_view kSanitizer = "address", kPrefix = "__asan_";
constexpr auto kAttribute = llvm::Attribute::SanitizeAddress;

void add_passes(llvm::ModulePassManager& passes) {
  passes.addPass(llvm::AddressSanitizerPass(llvm::AddressSanitizerOptions(), /*UseGlobalGC=*/false,
                                            /*UseOdrIndicator=*/false, llvm::AsanDtorKind::None,
                                            llvm::AsanCtorKind::None));
}
#elif __has_feature(thread_sanitizer)
constexpr std::string_view kSanitizer = "thread", kPrefix = "__tsan_";
constexpr auto kAttribute = llvm::Attribute::SanitizeThread;

void add_passes(llvm::ModulePassManager& passes) {
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(llvm::ThreadSanitizerPass()));
}
#else
constexpr std::string_view kSanitizer, kPrefix;
constexpr auto kAttribute = llvm::Attribute::None;

void add_passes(llvm::ModulePassManager&) {}
#endif

// Red zones around globals would have to be registered by start-up code, which the JIT doesn't run.
void leave_globals(llvm::Module& module) {
  for (llvm::GlobalVariable& global : module.globals()) {
    llvm::GlobalValue::SanitizerMetadata metadata;
    metadata.NoAddress = true;
    global.setSanitizerMetadata(metadata);
  }
}

}  // namespace

std::string_view sanitizer() { return kSanitizer; }

void instrument(llvm::Module& module, llvm::PassBuilder& builder) {
  if (kSanitizer.empty()) return;
  leave_globals(module);
  for (llvm::Function& function : module)
    if (!function.isDeclaration()) function.addFnAttr(kAttribute);
  builder.registerOptimizerLastEPCallback(
      [](llvm::ModulePassManager& passes, llvm::OptimizationLevel) { add_passes(passes); });
}

bool is_sanitizer_symbol(std::string_view name) { return !kPrefix.empty() && name.starts_with(kPrefix); }

}  // namespace graphex::codegen

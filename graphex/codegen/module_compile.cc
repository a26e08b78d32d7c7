// Module to object file: an early clean-up that drops what the knobs make unreachable, LLVM's O3, and code generation.
#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/DiagnosticHandler.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/IPO/SCCP.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include "graphex/base/error.h"
#include "graphex/codegen/module_llvm.h"
#include "graphex/codegen/sanitize_llvm.h"

namespace graphex::codegen {
namespace {

struct Diagnostics : llvm::DiagnosticHandler {
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() == llvm::DS_Error) {
      llvm::raw_string_ostream stream(errors);
      llvm::DiagnosticPrinterRawOStream printer(stream);
      info.print(printer);
      stream << "; ";
    }
    return true;
  }
  std::string errors;
};

void verify(const llvm::Module& module) {
  std::string problem;
  llvm::raw_string_ostream text(problem);
  if (llvm::verifyModule(module, &text)) {
    fail(ErrorKind::kInternal, "the code of kernel '", module.getName().str(), "' is malformed: ", problem);
  }
}

llvm::PipelineTuningOptions tuning() {
  llvm::PipelineTuningOptions options;
  options.LoopInterleaving = true;
  options.LoopVectorization = true;
  options.SLPVectorization = true;
  options.LoopUnrolling = true;
  return options;
}

// Nothing but the memory functions exists at run time, so no other library call may be made up.
llvm::TargetLibraryInfoImpl memory_functions_only(const llvm::Triple& triple) {
  llvm::TargetLibraryInfoImpl library(triple);
  library.disableAllFunctions();
  for (const auto function : {llvm::LibFunc_memcpy, llvm::LibFunc_memmove, llvm::LibFunc_memset})
    library.setAvailable(function);
  return library;
}

// Dead variants cost the inliner and the vectoriser most, so they go before both.
llvm::ModulePassManager drop_dead_variants() {
  llvm::FunctionPassManager simplify;
  simplify.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  simplify.addPass(llvm::EarlyCSEPass());
  simplify.addPass(llvm::SimplifyCFGPass());
  llvm::ModulePassManager passes;
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(simplify)));
  passes.addPass(llvm::IPSCCPPass());
  passes.addPass(llvm::GlobalDCEPass());
  return passes;
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager groups;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, tuning());
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(memory_functions_only(machine.getTargetTriple())); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(groups);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, groups, modules);
  instrument(module, builder);
  llvm::ModulePassManager passes = drop_dead_variants();
  passes.addPass(builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3));
  passes.run(module, modules);
}

std::string generate(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile)) {
    fail(ErrorKind::kInternal, "LLVM can't write object files");
  }
  passes.run(module);
  return std::string(object.data(), object.size());
}

}  // namespace

std::unique_ptr<llvm::LLVMContext> make_context() {
  auto context = std::make_unique<llvm::LLVMContext>();
  context->setDiagnosticHandler(std::make_unique<Diagnostics>());
  return context;
}

void throw_diagnosed(const llvm::Module& module) {
  const auto* diagnostics = static_cast<const Diagnostics*>(module.getContext().getDiagHandlerPtr());
  if (diagnostics->errors.empty()) return;
  fail(ErrorKind::kInternal, "kernel '", module.getName().str(), "' can't be compiled: ", diagnostics->errors);
}

std::string compile_module(llvm::Module& module, const Target& target) {
  const auto machine = make_target_machine(target);
  verify(module);
  optimise(module, *machine);
  std::string object = generate(module, *machine);
  throw_diagnosed(module);
  return object;
}

}  // namespace graphex::codegen

#include <llvm/ADT/StringExtras.h>
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/MemoryBufferRef.h>
#include <llvm/Support/xxhash.h>
#include <llvm/Transforms/IPO/Internalize.h>

#include <algorithm>

#include "graphex/base/error.h"
#include "graphex/codegen/loop_emit.h"
#include "graphex/codegen/module_llvm.h"
#include "graphex/kernels/blobs.h"

namespace graphex::codegen {
namespace {

std::string listed(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

const kernels::Blob& find_blob(std::string_view name, Isa isa) {
  std::vector<std::string> known;
  for (const kernels::Blob& blob : kernels::blobs()) {
    if (blob.name == name && blob.level == name_of(isa)) return blob;
    known.emplace_back(blob.name);
  }
  fail(ErrorKind::kInvalidArgument, "no kernel module '", name, "' at level ", name_of(isa),
       "; there are: ", listed(std::move(known)));
}

// Function bodies stay unread until something links them.
std::unique_ptr<llvm::Module> open_blob(std::string_view name, Isa isa, llvm::LLVMContext& context) {
  const kernels::Blob& blob = find_blob(name, isa);
  const llvm::MemoryBufferRef bytes(llvm::StringRef(blob.data, blob.size), "kernels");
  auto module = llvm::getLazyBitcodeModule(bytes, context, /*ShouldLazyLoadMetadata=*/true);
  if (!module) {
    fail(ErrorKind::kInternal, "kernel module '", name, "' can't be read: ", llvm::toString(module.takeError()));
  }
  return std::move(*module);
}

void link_needed(llvm::Module& module, std::unique_ptr<llvm::Module> source) {
  const std::string name = source->getModuleIdentifier();
  const auto internalize = [](llvm::Module& linked, const llvm::StringSet<>& names) {
    llvm::internalizeModule(
        linked, [&](const llvm::GlobalValue& value) { return !value.hasName() || !names.contains(value.getName()); });
  };
  if (llvm::Linker::linkModules(module, std::move(source), llvm::Linker::LinkOnlyNeeded, internalize)) {
    throw_diagnosed(module);
    fail(ErrorKind::kInternal, "kernel module '", name, "' can't be linked");
  }
}

bool is_kernel_type(const llvm::FunctionType& type) {
  return type.getReturnType()->isVoidTy() && type.getNumParams() == 5 && type.getParamType(0)->isPointerTy() &&
         type.getParamType(1)->isPointerTy() && type.getParamType(2)->isIntegerTy(64) &&
         type.getParamType(3)->isIntegerTy(64) && type.getParamType(4)->isPointerTy();
}

bool is_companion_type(const llvm::FunctionType& type) {
  return type.getReturnType()->isIntegerTy(64) && type.getNumParams() == 1 && type.getParamType(0)->isPointerTy();
}

constexpr const char* kCompanions[] = {"_tiles", "_workspace", "_divisible"};

std::vector<std::string> entries_of(const llvm::Module& blob) {
  std::vector<std::string> entries;
  for (const llvm::Function& function : blob) {
    if (function.hasExternalLinkage() && !function.isDeclaration() && is_kernel_type(*function.getFunctionType())) {
      entries.push_back(function.getName().str());
    }
  }
  return entries;
}

std::vector<std::string> knobs_of(const llvm::Module& blob) {
  std::vector<std::string> knobs;
  for (const llvm::GlobalVariable& global : blob.globals())
    if (global.isDeclaration()) knobs.push_back(global.getName().str());
  return knobs;
}

const llvm::Function& find_entry(const llvm::Module& blob, const HandKernel& request) {
  const llvm::Function* entry = blob.getFunction(request.entry);
  if (entry && !entry->isDeclaration() && is_kernel_type(*entry->getFunctionType())) return *entry;
  fail(ErrorKind::kInvalidArgument, "kernel module '", request.module, "' has no kernel '", request.entry,
       "'; it has: ", listed(entries_of(blob)));
}

void check_knob_names(const llvm::Module& blob, const HandKernel& request) {
  for (const auto& [name, value] : request.knobs) {
    const llvm::GlobalVariable* knob = blob.getGlobalVariable(name);
    if (knob && knob->isDeclaration()) continue;
    fail(ErrorKind::kInvalidArgument, "kernel module '", request.module, "' has no knob '", name,
         "'; it has: ", listed(knobs_of(blob)));
  }
}

void set_knobs(llvm::Module& module, const HandKernel& request) {
  for (llvm::GlobalVariable& global : module.globals()) {
    if (!global.isDeclaration()) continue;
    const auto knob = std::find_if(request.knobs.begin(), request.knobs.end(),
                                   [&](const auto& pair) { return pair.first == global.getName(); });
    if (knob == request.knobs.end()) {
      fail(ErrorKind::kInvalidArgument, "kernel '", request.entry, "' of module '", request.module,
           "' reads the knob '", global.getName().str(), "', which the request doesn't set");
    }
    if (!global.getValueType()->isIntegerTy(64)) {
      fail(ErrorKind::kInternal, "knob '", knob->first, "' of module '", request.module, "' must be an int64_t");
    }
    global.setInitializer(llvm::ConstantInt::get(global.getValueType(), static_cast<uint64_t>(knob->second), true));
    global.setConstant(true);
    global.setLinkage(llvm::GlobalValue::InternalLinkage);
    global.setVisibility(llvm::GlobalValue::DefaultVisibility);
  }
}

void add_hand_kernel(const HandKernel& request, Isa isa, llvm::Module& module) {
  auto blob = open_blob(request.module, isa, module.getContext());
  const auto declare = [&](const llvm::Function& function) {
    llvm::Function::Create(function.getFunctionType(), llvm::GlobalValue::ExternalLinkage, function.getName(), module);
  };
  declare(find_entry(*blob, request));
  for (const char* suffix : kCompanions) {
    const llvm::Function* companion = blob->getFunction(request.entry + suffix);
    if (companion && !companion->isDeclaration() && is_companion_type(*companion->getFunctionType()))
      declare(*companion);
  }
  check_knob_names(*blob, request);
  link_needed(module, std::move(blob));
  set_knobs(module, request);
}

// -fsanitize=function of a caller reads the 8 bytes before a function it calls through a pointer; for the first
// function of a mapping they would not exist. 16 zero bytes say "no signature here" and keep the alignment.
void set_prefix(llvm::Function& function) {
  llvm::Type* word = llvm::Type::getInt64Ty(function.getContext());
  function.setPrefixData(llvm::ConstantAggregateZero::get(llvm::ArrayType::get(word, 2)));
}

bool is_kept(const llvm::GlobalValue& value, const std::string& entry) {
  return value.getName() == entry || std::any_of(std::begin(kCompanions), std::end(kCompanions),
                                                 [&](const char* suffix) { return value.getName() == entry + suffix; });
}

void keep_only(llvm::Module& module, const std::string& entry) {
  for (llvm::GlobalValue& value : module.global_values()) {
    if (value.isDeclaration()) continue;
    if (auto* object = llvm::dyn_cast<llvm::GlobalObject>(&value)) object->setComdat(nullptr);
    value.setVisibility(llvm::GlobalValue::DefaultVisibility);
    value.setLinkage(is_kept(value, entry) ? llvm::GlobalValue::ExternalLinkage : llvm::GlobalValue::InternalLinkage);
    value.setDSOLocal(true);
    if (auto* function = llvm::dyn_cast<llvm::Function>(&value); function && is_kept(value, entry))
      set_prefix(*function);
  }
  for (const char* name : {"llvm.used", "llvm.compiler.used"})
    if (llvm::GlobalVariable* list = module.getGlobalVariable(name, true)) list->eraseFromParent();
}

// Kernel sources carry their level's attributes; the machine code's target is ours to choose. Kernels don't unwind.
void set_target(llvm::Module& module, const Target& target) {
  for (llvm::Function& function : module) {
    for (const char* name : {"target-cpu", "target-features", "tune-cpu", "frame-pointer", "probe-stack"})
      function.removeFnAttr(name);
    function.removeFnAttr(llvm::Attribute::UWTable);
    if (function.isDeclaration()) continue;
    function.setDoesNotThrow();
    function.addFnAttr("target-cpu", target.cpu);
    if (!target.features.empty()) function.addFnAttr("target-features", target.features);
    function.addFnAttr("prefer-vector-width", std::to_string(target.vector_width));
  }
  if (llvm::NamedMDNode* ident = module.getNamedMetadata("llvm.ident")) ident->eraseFromParent();
}

void check_no_start_code(const llvm::Module& module) {
  if (module.getGlobalVariable("llvm.global_ctors", true)) {
    fail(ErrorKind::kInternal, "kernel module '", module.getName().str(),
         "' has a global that needs code at start-up; ", "make it constexpr");
  }
}

}  // namespace

void link_blob(llvm::Module& module, std::string_view name, Isa isa) {
  link_needed(module, open_blob(name, isa, module.getContext()));
}

std::vector<KernelEntry> kernel_entries(Isa isa) {
  std::vector<KernelEntry> list;
  for (const kernels::Blob& blob : kernels::blobs()) {
    if (blob.level != name_of(isa)) continue;
    const auto context = make_context();
    const auto module = open_blob(blob.name, isa, *context);
    for (const std::string& entry : entries_of(*module)) {
      list.push_back({std::string(blob.name), entry, knobs_of(*module)});
    }
  }
  return list;
}

std::string entry_name(const KernelRequest& request) {
  if (const auto* hand = std::get_if<HandKernel>(&request)) return hand->entry;
  // Profilers show symbols: loops of different specs should differ there, and a spec's name should not change.
  const std::string key = std::get<LoopKernel>(request).spec->key();
  return "gx_loop_" + llvm::utohexstr(llvm::xxh3_64bits(llvm::StringRef(key)) & 0xffffffff, /*LowerCase=*/true, 8);
}

std::unique_ptr<llvm::Module> build_module(const KernelRequest& request, const Target& target,
                                           llvm::LLVMContext& context) {
  const std::string entry = entry_name(request);
  auto module = std::make_unique<llvm::Module>(entry, context);
  const auto machine = make_target_machine(target);
  module->setTargetTriple(machine->getTargetTriple().str());
  module->setDataLayout(machine->createDataLayout());
  if (const auto* hand = std::get_if<HandKernel>(&request)) {
    add_hand_kernel(*hand, target.isa, *module);
  } else {
    emit_loop(*std::get<LoopKernel>(request).spec, entry, *module);
    link_blob(*module, "scalar", target.isa);
  }
  check_no_start_code(*module);
  keep_only(*module, entry);
  set_target(*module, target);
  return module;
}

}  // namespace graphex::codegen

#include "graphex/codegen/jit.h"

#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/ExecutionEngine/Orc/TaskDispatch.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>

#include <algorithm>
#include <mutex>

#include "graphex/base/error.h"
#include "graphex/codegen/code_mapper_llvm.h"
#include "graphex/codegen/compiler.h"
#include "graphex/codegen/sanitize_llvm.h"

namespace graphex::codegen {
namespace orc = llvm::orc;

namespace {

template <class T>
T checked(llvm::Expected<T> value, const char* what) {
  if (!value) fail(ErrorKind::kInternal, what, ": ", llvm::toString(value.takeError()));
  return std::move(*value);
}

// Tasks run on the calling thread: a JIT with threads of its own would not survive fork().
std::unique_ptr<orc::ExecutorProcessControl> this_process(const std::string& code_folder) {
  return checked(orc::SelfExecutorProcessControl::Create(nullptr, std::make_unique<orc::InPlaceTaskDispatcher>(),
                                                         make_memory_manager(code_folder)),
                 "the JIT can't start");
}

orc::SymbolMap runtime_symbol_map(orc::ExecutionSession& session) {
  orc::SymbolMap map;
  for (const RuntimeSymbol& symbol : runtime_symbols()) {
    map[session.intern(symbol.name)] = {orc::ExecutorAddr::fromPtr(symbol.address), llvm::JITSymbolFlags::Exported};
  }
  return map;
}

std::unique_ptr<orc::DefinitionGenerator> sanitizer_runtime() {
  const auto wanted = [](const orc::SymbolStringPtr& name) { return is_sanitizer_symbol(std::string_view(*name)); };
  return checked(orc::DynamicLibrarySearchGenerator::GetForCurrentProcess('\0', wanted),
                 "the JIT can't look into this process");
}

}  // namespace

struct Jit::Impl {
  explicit Impl(const std::string& code_folder)
      : session(this_process(code_folder)), layer(session), runtime(session.createBareJITDylib("runtime")) {
    session.setErrorReporter([this](llvm::Error error) { reports += llvm::toString(std::move(error)) + "; "; });
    if (auto error = runtime.define(orc::absoluteSymbols(runtime_symbol_map(session)))) {
      fail(ErrorKind::kInternal, "the JIT can't define its symbols: ", llvm::toString(std::move(error)));
    }
    if (!sanitizer().empty()) runtime.addGenerator(sanitizer_runtime());
  }

  ~Impl() {
    if (auto error = session.endSession()) llvm::consumeError(std::move(error));
  }

  // A library per object: entries of different specialisations have the same name.
  orc::JITDylib& add(const std::string& object, const std::string& entry) {
    auto& library = session.createBareJITDylib(entry + "." + std::to_string(count++));
    library.addToLinkOrder(runtime);
    if (auto error = layer.add(library, llvm::MemoryBuffer::getMemBufferCopy(object, entry)))
      raise(entry, std::move(error));
    return library;
  }

  [[noreturn]] void raise(const std::string& entry, llvm::Error error) {
    std::string text = std::move(reports) + llvm::toString(std::move(error));
    reports.clear();
    fail(ErrorKind::kInternal, "kernel '", entry, "' can't be linked: ", text);
  }

  std::mutex mutex;  // linking is short, and one at a time keeps each report with its kernel
  orc::ExecutionSession session;
  orc::ObjectLinkingLayer layer;
  orc::JITDylib& runtime;
  std::string reports;
  int64_t count = 0;
};

Jit::Jit(const std::string& code_folder) : impl_(std::make_unique<Impl>(code_folder)) {}
Jit::~Jit() = default;

LinkedKernel Jit::link(const std::string& object, const std::string& entry) {
  const std::lock_guard lock(impl_->mutex);
  auto& session = impl_->session;
  orc::JITDylib& library = impl_->add(object, entry);
  const auto run = session.intern(entry);
  const auto tiles = session.intern(entry + "_tiles");
  const auto workspace = session.intern(entry + "_workspace");
  const auto divisible = session.intern(entry + "_divisible");
  orc::SymbolLookupSet names;
  names.add(run);
  names.add(tiles, orc::SymbolLookupFlags::WeaklyReferencedSymbol);
  names.add(workspace, orc::SymbolLookupFlags::WeaklyReferencedSymbol);
  names.add(divisible, orc::SymbolLookupFlags::WeaklyReferencedSymbol);
  auto found = session.lookup(orc::makeJITDylibSearchOrder(&library), std::move(names));
  if (!found) impl_->raise(entry, found.takeError());
  return {(*found)[run].getAddress().toPtr<GxKernel>(), (*found)[tiles].getAddress().toPtr<GxTiles>(),
          (*found)[workspace].getAddress().toPtr<GxWorkspace>(), (*found)[divisible].getAddress().toPtr<GxDivisible>()};
}

std::vector<std::string> unresolved_symbols(const std::string& object) {
  const llvm::MemoryBufferRef bytes(object, "kernel");
  const auto file = checked(llvm::object::ObjectFile::createELFObjectFile(bytes), "not an object file");
  std::vector<std::string> missing;
  for (const llvm::object::SymbolRef symbol : file->symbols()) {
    const uint32_t flags = checked(symbol.getFlags(), "broken symbol");
    const std::string name = checked(symbol.getName(), "broken symbol").str();
    const bool known =
        is_sanitizer_symbol(name) || std::any_of(runtime_symbols().begin(), runtime_symbols().end(),
                                                 [&](const RuntimeSymbol& runtime) { return name == runtime.name; });
    if ((flags & llvm::object::SymbolRef::SF_Undefined) && !name.empty() && !known) missing.push_back(name);
  }
  return missing;
}

}  // namespace graphex::codegen

#include <llvm/ADT/BitmaskEnum.h>
#include <llvm/ExecutionEngine/Orc/MapperJITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/MemoryMapper.h>
#include <llvm/Support/Memory.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "graphex/codegen/code_mapper_llvm.h"
#include "graphex/codegen/code_memory.h"

namespace graphex::codegen {
namespace orc = llvm::orc;

namespace {

LLVM_ENABLE_BITMASK_ENUMS_IN_NAMESPACE();

size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

llvm::Error system_error(const std::string& what) {
  return llvm::createStringError(std::error_code(errno, std::generic_category()), what);
}

// The Jit links one object at a time, so this needs no lock.
class CodeMapper final : public orc::MemoryMapper {
 public:
  explicit CodeMapper(const std::string& folder) : code_(folder) {}

  ~CodeMapper() override {
    for (const auto& [start, bytes] : reserved_) munmap(start, bytes);
  }

  unsigned getPageSize() override { return static_cast<unsigned>(page_size()); }

  void reserve(size_t bytes, OnReservedFunction done) override {
    void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return done(system_error("no memory for code"));
    reserved_[start] = bytes;
    done(orc::ExecutorAddrRange(orc::ExecutorAddr::fromPtr(start), bytes));
  }

  char* prepare(orc::ExecutorAddr at, size_t) override { return at.toPtr<char*>(); }

  void initialize(AllocInfo& info, OnInitializedFunction done) override {
    orc::ExecutorAddr first(~0ULL), last;
    for (const AllocInfo::SegInfo& segment : info.Segments) {
      const orc::ExecutorAddr start = info.MappingBase + segment.Offset;
      const size_t bytes = llvm::alignTo(segment.ContentSize + segment.ZeroFillSize, getPageSize());
      std::memset((start + segment.ContentSize).toPtr<char*>(), 0, segment.ZeroFillSize);
      if (auto error = protect(start.toPtr<void*>(), bytes, segment.AG.getMemProt())) return done(std::move(error));
      first = std::min(first, start);
      last = std::max(last, start + bytes);
    }
    auto actions = orc::shared::runFinalizeActions(info.Actions);
    if (!actions) return done(actions.takeError());
    allocations_[first] = {last - first, std::move(*actions)};
    done(first);
  }

  void deinitialize(llvm::ArrayRef<orc::ExecutorAddr> starts, OnDeinitializedFunction done) override {
    llvm::Error problems = llvm::Error::success();
    for (const orc::ExecutorAddr start : starts) {
      const auto node = allocations_.extract(start);
      problems = llvm::joinErrors(std::move(problems), orc::shared::runDeallocActions(node.mapped().actions));
      // Ready to be written again.
      if (mmap(start.toPtr<void*>(), node.mapped().bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        problems = llvm::joinErrors(std::move(problems), system_error("memory of code can't be given back"));
    }
    done(std::move(problems));
  }

  void release(llvm::ArrayRef<orc::ExecutorAddr> starts, OnReleasedFunction done) override {
    for (const orc::ExecutorAddr start : starts) {
      const auto node = reserved_.extract(start.toPtr<void*>());
      munmap(node.key(), node.mapped());
    }
    done(llvm::Error::success());
  }

 private:
  struct Allocation {
    size_t bytes;
    std::vector<orc::shared::WrapperFunctionCall> actions;
  };

  llvm::Error protect(void* start, size_t bytes, orc::MemProt access) {
    if ((access & orc::MemProt::Exec) == orc::MemProt::None) {
      const int flags = (access & orc::MemProt::Write) == orc::MemProt::None ? PROT_READ : PROT_READ | PROT_WRITE;
      return mprotect(start, bytes, flags) == 0 ? llvm::Error::success() : system_error("data of code");
    }
    if (const std::string problem = code_.make_executable(start, bytes); !problem.empty())
      return llvm::createStringError("the system refuses executable memory: " + problem);
    llvm::sys::Memory::InvalidateInstructionCache(start, bytes);
    return llvm::Error::success();
  }

  const CodeMemory code_;
  std::map<void*, size_t> reserved_;
  std::map<orc::ExecutorAddr, Allocation> allocations_;
};

}  // namespace

std::unique_ptr<llvm::jitlink::JITLinkMemoryManager> make_memory_manager(const std::string& folder) {
  // An abandoned link releases the whole reservation that its memory begins, so each object has one of its own.
  return std::make_unique<orc::MapperJITLinkMemoryManager>(page_size(), std::make_unique<CodeMapper>(folder));
}

}  // namespace graphex::codegen

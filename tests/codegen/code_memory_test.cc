// Code where the system restricts executable memory, each in a child process that restricts itself as systemd's
// MemoryDenyWriteExecute and stricter sandboxes do.
#include "graphex/codegen/code_memory.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "graphex/base/error.h"
#include "graphex/codegen/compiler.h"

namespace graphex::codegen {
namespace {

// Refuses the call `number` when all bits of `mask` are set in its argument `argument`.
struct Rule {
  uint32_t number;
  int argument;
  uint32_t mask;
};

const Rule kNoExecProtection = {SYS_mprotect, 2, PROT_EXEC};
const Rule kNoWriteAndExec = {SYS_mmap, 2, PROT_WRITE | PROT_EXEC};
const Rule kNoMemoryFile = {SYS_memfd_create, 1, 0};
const Rule kNoExecMapping = {SYS_mmap, 2, PROT_EXEC};

bool restrict_to(const std::vector<Rule>& rules) {
  std::vector<sock_filter> code;
  for (const Rule& rule : rules) {
    const auto argument =
        static_cast<uint32_t>(offsetof(seccomp_data, args) + static_cast<size_t>(rule.argument) * sizeof(uint64_t));
    code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, rule.number, 0, 4));
    code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument));
    code.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, rule.mask));
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, rule.mask, 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

class CodeMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (sanitized()) GTEST_SKIP() << "the sanitizer's own memory needs what is forbidden here";
  }
  static bool sanitized() {
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return true;
#else
    return false;
#endif
  }
};

// Compiles and runs the skeleton under `rules`; leaves with 0 when code came by `way` and its values are right.
[[noreturn]] void run_under(const std::vector<Rule>& rules, const std::string& way) {
  const std::string folder = testing::TempDir() + "gx_code_memory_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  if (!restrict_to(rules)) _exit(3);
  KernelCompiler compiler({.isa = Isa::kGeneric, .cache_dir = folder});
  const KernelRequest request = HandKernel{"skeleton", "gx_skeleton", {{"kKeep", 1}}};
  int result = CodeMemory(folder).way() == way ? 0 : 1;
  try {
    const Kernel kernel = compiler.compile({&request, 1})[0];
    const int64_t sizes[] = {8193, 0};
    if (kernel.tiles(sizes) != 3) result = 2;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    result = error.kind() == ErrorKind::kUnsupported ? 4 : 5;
  }
  std::filesystem::remove_all(folder);
  _exit(result);
}

TEST_F(CodeMemoryTest, IsOrdinaryWhereNothingIsForbidden) {
  EXPECT_EXIT(run_under({}, "memory"), testing::ExitedWithCode(0), "");
}

TEST_F(CodeMemoryTest, GoesThroughAMemoryFileWhereWrittenMemoryMayNotRun) {
  EXPECT_EXIT(run_under({kNoExecProtection, kNoWriteAndExec}, "memory file"), testing::ExitedWithCode(0), "");
}

TEST_F(CodeMemoryTest, GoesThroughTheCachesFolderWithoutMemoryFiles) {
  EXPECT_EXIT(run_under({kNoExecProtection, kNoWriteAndExec, kNoMemoryFile}, "file on disk"),
              testing::ExitedWithCode(0), "");
}

TEST_F(CodeMemoryTest, SaysWhatToAllowWhereAllIsForbidden) {
  EXPECT_EXIT(run_under({kNoExecProtection, kNoExecMapping}, "forbidden"), testing::ExitedWithCode(4),
              "forbids this process executable memory.*allow one of them");
}

}  // namespace
}  // namespace graphex::codegen

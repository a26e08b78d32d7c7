#include "graphex/codegen/code_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace graphex::codegen {

namespace {

using Pages = std::pair<void*, size_t>;
// Each returns 0, or errno.
using Attempt = int (*)(const Pages& pages, const std::string& folder);

struct Way {
  const char* name;
  Attempt attempt;
};

int protect(const Pages& pages, const std::string&) {
  return mprotect(pages.first, pages.second, PROT_READ | PROT_EXEC) == 0 ? 0 : errno;
}

bool write_whole(int file, const Pages& pages) {
  const char* from = static_cast<const char*>(pages.first);
  for (size_t done = 0; done < pages.second;) {
    const ssize_t written = pwrite(file, from + done, pages.second - done, static_cast<off_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = EIO;
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

// Puts the file in the place of the pages; a failure leaves them as they are.
int replace_by(int file, const Pages& pages) {
  const auto [start, bytes] = pages;
  if (!write_whole(file, pages)) return errno;
  void* code = mmap(nullptr, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
  if (code == MAP_FAILED) return errno;
  if (mremap(code, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, start) != MAP_FAILED) return 0;
  const int problem = errno;
  munmap(code, bytes);
  return problem;
}

int replace_and_close(int file, const Pages& pages) {
  if (file < 0) return errno;
  const int problem = replace_by(file, pages);
  close(file);
  return problem;
}

int map_memory_file(const Pages& pages, const std::string&) {
  return replace_and_close(static_cast<int>(syscall(SYS_memfd_create, "graphex-code", 1U /* MFD_CLOEXEC */)), pages);
}

int map_disk_file(const Pages& pages, const std::string& folder) {
  return replace_and_close(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), pages);
}

constexpr std::array<Way, 3> kWays = {
    {{"memory", protect}, {"memory file", map_memory_file}, {"file on disk", map_disk_file}}};

}  // namespace

std::string CodeMemory::make_executable(void* pages, size_t bytes) const {
  std::string problems;
  for (const Way& way : kWays) {
    const int problem = way.attempt({pages, bytes}, folder_);
    if (problem == 0) return "";
    problems += std::string(problems.empty() ? "" : ", ") + way.name + ": " + std::strerror(problem);
  }
  return problems + (folder_.empty() ? "" : " (" + folder_ + ")");
}

std::string CodeMemory::way() const {
  const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const Way& way : kWays) {
    void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) break;
    const int problem = way.attempt({page, bytes}, folder_);
    munmap(page, bytes);
    if (problem == 0) return way.name;
  }
  return "forbidden";
}

}  // namespace graphex::codegen

// Makes written memory executable, also where the system forbids that: SELinux's execmem, systemd's
// MemoryDenyWriteExecute and PR_SET_MDWE refuse to turn a page that was writable into code. There the pages go through
// a file that is mapped executable, as shared libraries are: a memory file, or an unnamed one on disk.
#pragma once

#include <cstddef>
#include <string>

namespace graphex::codegen {

class CodeMemory {
 public:
  // `folder` holds the file on disk if one is needed; empty: there is none.
  explicit CodeMemory(std::string folder) : folder_(std::move(folder)) {}

  // `pages` are whole, private, anonymous and writable; afterwards they hold the same bytes, readable and executable.
  // Returns why that can't be had, with what each way met; empty when it's done.
  std::string make_executable(void* pages, size_t bytes) const;

  // What a page of this process meets now: "memory", "memory file", "file on disk"; or "forbidden".
  std::string way() const;

 private:
  std::string folder_;
};

}  // namespace graphex::codegen

// The OpenMP library that is already in the process, found at run time: nothing here links or loads one.
#pragma once

#include <optional>
#include <string>

namespace graphex::runtime {

struct OpenMp {
  void (*parallel)(void (*body)(void*), void* data, unsigned threads, unsigned flags);  // GOMP_parallel
  int (*thread_num)();
  int (*num_threads)();
  std::string path;  // of the library, for reports
};

// GNU's, Intel's and LLVM's all offer the entry points. If several are loaded, the one that torch calls comes first.
std::optional<OpenMp> find_loaded_openmp();

}  // namespace graphex::runtime

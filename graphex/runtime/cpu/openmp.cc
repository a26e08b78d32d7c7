#include "graphex/runtime/cpu/openmp.h"

#include <dlfcn.h>
#include <link.h>

#include <string_view>
#include <vector>

namespace graphex::runtime {
namespace {

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// A symbol looked up in torch's library is found in what that library depends on: its own copy of OpenMP.
bool is_torch(std::string_view path) { return file_name(path).starts_with("libtorch_cpu."); }

bool is_openmp(std::string_view path) {
  const std::string_view name = file_name(path);
  return name.starts_with("libgomp") || name.starts_with("libiomp5") || name.starts_with("libomp.") ||
         name.starts_with("libomp-");
}

// Paths of loaded libraries to look the entry points up in, best first.
std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        auto& paths = *static_cast<std::vector<std::string>*>(found);
        const std::string path = info->dlpi_name;
        if (is_torch(path)) paths.insert(paths.begin(), path);
        if (is_openmp(path)) paths.push_back(path);
        return 0;
      },
      &paths);
  return paths;
}

template <class Function>
bool look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

std::optional<OpenMp> find_loaded_openmp() {
  for (const std::string& path : candidates()) {
    // The reference is kept: a library whose threads run our code must not be unloaded.
    void* library = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
    OpenMp openmp;
    if (library && look_up(library, "GOMP_parallel", openmp.parallel) &&
        look_up(library, "omp_get_thread_num", openmp.thread_num) &&
        look_up(library, "omp_get_num_threads", openmp.num_threads)) {
      Dl_info info;
      openmp.path = dladdr(reinterpret_cast<void*>(openmp.parallel), &info) ? info.dli_fname : path;
      return openmp;
    }
  }
  return std::nullopt;
}

}  // namespace graphex::runtime

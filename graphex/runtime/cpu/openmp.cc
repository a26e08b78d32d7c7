#include "graphex/runtime/cpu/openmp.h"

#include <dlfcn.h>
#include <link.h>

#include <string_view>
#include <vector>

namespace graphex::runtime {
namespace {

bool is_openmp(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libgomp") || name.starts_with("libiomp5") || name.starts_with("libomp.") ||
         name.starts_with("libomp-");
}

// torch.libs/ and torch/lib/ hold the copy that torch's wheel brings.
bool is_torchs(const std::string& path) { return path.find("/torch") != std::string::npos; }

std::vector<std::string> loaded_openmp_paths() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        auto& paths = *static_cast<std::vector<std::string>*>(found);
        const std::string path = info->dlpi_name;
        if (is_openmp(path)) paths.insert(is_torchs(path) ? paths.begin() : paths.end(), path);
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
  for (const std::string& path : loaded_openmp_paths()) {
    // The reference is kept: a library whose threads run our code must not be unloaded.
    void* library = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
    OpenMp openmp;
    if (library && look_up(library, "GOMP_parallel", openmp.parallel) &&
        look_up(library, "omp_get_thread_num", openmp.thread_num) &&
        look_up(library, "omp_get_num_threads", openmp.num_threads)) {
      openmp.path = path;
      return openmp;
    }
  }
  return std::nullopt;
}

}  // namespace graphex::runtime

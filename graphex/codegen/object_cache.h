// Object files on disk, found by key. It is machine code: only folders and files that nobody but this user (or root)
// could have written are read, and whatever is truncated, damaged or of another version counts as absent.
//
// Every failure of the disk means a slower start and nothing else; `problem` says why a cache is not in use.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

namespace graphex::codegen {

using CacheKey = std::array<uint8_t, 32>;
std::string hex(const CacheKey& key);

class ObjectCache {
 public:
  // The objects lie in folder + "/kernels"; both folders are created with mode 0700 if absent.
  explicit ObjectCache(const std::string& folder);
  ~ObjectCache();
  ObjectCache(const ObjectCache&) = delete;
  ObjectCache& operator=(const ObjectCache&) = delete;

  std::optional<std::string> load(const CacheKey& key);
  // Replaces what is there. The first failure is told on stderr.
  void store(const CacheKey& key, const std::string& object);
  // Counts an object that load() gave and that turned out to be unusable.
  void reject() { ++rejected_; }

  const std::string& problem() const { return problem_; }
  int rejected() const { return rejected_; }

 private:
  std::string folder_;
  int directory_ = -1;
  std::string problem_;
  std::atomic<int> rejected_ = 0;
  std::atomic<bool> warned_ = false;
  std::atomic<uint64_t> temporaries_ = 0;
};

// $GRAPHEX_CACHE_DIR, else ~/.cache/graphex; empty if there is neither.
std::string default_cache_folder();

}  // namespace graphex::codegen

#include "graphex/codegen/object_cache.h"

#include <fcntl.h>
#include <llvm/Support/xxhash.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace graphex::codegen {
namespace {

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  CacheKey key;
  uint64_t payload_bytes;
  uint64_t checksum;
};
constexpr char kMagic[8] = {'G', 'X', 'O', 'B', 'J', 'E', 'C', 'T'};
constexpr uint32_t kVersion = 1;
// Far above any kernel (2 to 200 KiB); a damaged size must not make us allocate the machine.
constexpr off_t kMaxFileBytes = 64 << 20;

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }
  bool ok() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

uint64_t checksum(const std::string& payload) { return llvm::xxh3_64bits(llvm::StringRef(payload)); }

bool only_we_write(const struct stat& info) {
  return (info.st_uid == geteuid() || info.st_uid == 0) && !(info.st_mode & (S_IWGRP | S_IWOTH));
}

bool read_all(int descriptor, char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = read(descriptor, data, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int descriptor, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t done = write(descriptor, data, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

// 0, or why the first that couldn't be made couldn't, which matters only if it isn't there.
int make_folders(const std::string& folder) {
  int reason = 0;
  for (size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
    if (mkdir(folder.substr(0, end).c_str(), 0700) != 0 && errno != EEXIST && reason == 0) reason = errno;
    if (end == std::string::npos) return reason;
  }
}

// The opened folder, or -1 and the reason; `unmade` says why it couldn't be made.
int open_folder(const std::string& folder, int unmade, std::string& problem) {
  File directory(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info;
  if (!directory.ok() || fstat(directory.get(), &info) != 0) {
    problem = "cannot open the folder " + folder + ": " + std::strerror(errno);
    if (unmade != 0) problem += std::string(", nor make it: ") + std::strerror(unmade);
    return -1;
  }
  if (!only_we_write(info)) {
    problem = "the folder " + folder +
              " belongs to or can be written by another user, so code in it can't be trusted; " +
              "give GRAPHEX_CACHE_DIR a folder of your own, or take it over: chown -R $USER '" + folder +
              "' && chmod -R go-w '" + folder + "'";
    return -1;
  }
  return directory.release();
}

std::optional<std::string> read_payload(int descriptor, off_t file_bytes, const CacheKey& key) {
  Header header;
  if (file_bytes < static_cast<off_t>(sizeof header) || file_bytes > kMaxFileBytes) return std::nullopt;
  if (!read_all(descriptor, reinterpret_cast<char*>(&header), sizeof header)) return std::nullopt;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.version != kVersion ||
      header.header_bytes != sizeof header || header.key != key ||
      header.payload_bytes != static_cast<uint64_t>(file_bytes) - sizeof header) {
    return std::nullopt;
  }
  std::string payload(header.payload_bytes, '\0');
  if (!read_all(descriptor, payload.data(), payload.size()) || checksum(payload) != header.checksum)
    return std::nullopt;
  return payload;
}

Header make_header(const CacheKey& key, const std::string& payload) {
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.header_bytes = sizeof header;
  header.key = key;
  header.payload_bytes = payload.size();
  header.checksum = checksum(payload);
  return header;
}

bool write_file(int directory, const std::string& name, const Header& header, const std::string& payload) {
  File file(openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  return file.ok() && write_all(file.get(), reinterpret_cast<const char*>(&header), sizeof header) &&
         write_all(file.get(), payload.data(), payload.size());
}

}  // namespace

std::string hex(const CacheKey& key) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : key) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string default_cache_folder() {
  if (const char* folder = std::getenv("GRAPHEX_CACHE_DIR"); folder && *folder) return folder;
  const char* home = std::getenv("HOME");
  return home && *home ? std::string(home) + "/.cache/graphex" : "";
}

ObjectCache::ObjectCache(const std::string& folder) : folder_(folder + "/kernels") {
  if (folder.empty()) {
    problem_ = "neither GRAPHEX_CACHE_DIR nor HOME is set";
    return;
  }
  const int unmade = make_folders(folder_);
  const File outer(open_folder(folder, unmade, problem_));
  if (outer.ok()) directory_ = open_folder(folder_, unmade, problem_);
}

ObjectCache::~ObjectCache() {
  if (directory_ >= 0) close(directory_);
}

std::optional<std::string> ObjectCache::load(const CacheKey& key) {
  if (directory_ < 0) return std::nullopt;
  const std::string name = hex(key) + ".o";
  const File file(openat(directory_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.ok() && errno == ENOENT) return std::nullopt;
  struct stat info;
  std::optional<std::string> payload;
  if (file.ok() && fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) && only_we_write(info)) {
    payload = read_payload(file.get(), info.st_size, key);
  }
  if (!payload) reject();
  return payload;
}

void ObjectCache::store(const CacheKey& key, const std::string& object) {
  if (directory_ < 0) return;
  const std::string name = hex(key) + ".o";
  const std::string temporary = name + "." + std::to_string(getpid()) + "." + std::to_string(temporaries_++) + ".tmp";
  if (write_file(directory_, temporary, make_header(key, object), object) &&
      renameat(directory_, temporary.c_str(), directory_, name.c_str()) == 0) {
    return;
  }
  const int reason = errno;
  unlinkat(directory_, temporary.c_str(), 0);
  if (!warned_.exchange(true)) {
    std::fprintf(stderr, "graphex: compiled kernels are not kept for the next process: cannot write to %s: %s\n",
                 folder_.c_str(), std::strerror(reason));
  }
}

}  // namespace graphex::codegen

#include "graphex/frontends/gguf/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "graphex/base/block_values.h"
#include "graphex/base/error.h"

namespace graphex::frontends::gguf {
namespace {

std::span<const uint8_t> map(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(ErrorKind::kIo, "can't open ", path, ": ", std::strerror(errno));
  struct stat about;
  const bool known = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  const size_t size = known ? static_cast<size_t>(about.st_size) : 0;
  void* start = size ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : nullptr;
  const int problem = errno;
  close(file);
  if (!known) fail(ErrorKind::kIo, path, " is no regular file");
  if (start == MAP_FAILED) fail(ErrorKind::kIo, "can't map ", path, ": ", std::strerror(problem));
  return {static_cast<const uint8_t*>(start), size};
}

void unmap(std::span<const uint8_t> bytes) {
  if (!bytes.empty()) munmap(const_cast<uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

File::File(const std::string& path) : map_(map(path)) {
  try {
    contents_ = parse(map_);
  } catch (const Error& error) {
    unmap(map_);
    throw Error(error.kind(), path + ": " + error.what());
  }
}

File::~File() { unmap(map_); }

const Tensor* File::find(const std::string& name) const {
  for (const Tensor& tensor : contents_.tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

void pack(const Tensor& tensor, std::span<const int64_t> order, std::span<uint8_t> to) {
  const BlockFormat* format = find_block_format(tensor.type);
  GX_CHECK(format && tensor.shape.size() == 2 && !tensor.data.empty(), "GGUF: tensor '", tensor.name,
           "' isn't a matrix in blocks that graphex knows but ", type_name(tensor.type));
  const int64_t rows = tensor.shape[0], k = tensor.shape[1], bytes = k / format->elements * format->bytes;
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows, tile = tile_bytes(*format, k);
  GX_CHECK(static_cast<int64_t>(to.size()) == tiles * tile, "GGUF: '", tensor.name, "' packs into ", tiles * tile,
           " bytes; got room for ", to.size());
  GX_CHECK(order.empty() || static_cast<int64_t>(order.size()) == rows, "GGUF: '", tensor.name, "' has ", rows,
           " rows; got an order of ", order.size());
  for (int64_t first = 0; first < rows; first += kTileRows) {
    const uint8_t* from[kTileRows] = {};
    for (int64_t i = 0; i < kTileRows && first + i < rows; ++i) {
      const int64_t row = order.empty() ? first + i : order[static_cast<size_t>(first + i)];
      GX_CHECK(row >= 0 && row < rows, "GGUF: row ", row, " of '", tensor.name, "', which has ", rows);
      from[i] = tensor.data.data() + row * bytes;
    }
    to_tile(*format, k, from, to.data() + first / kTileRows * tile);
  }
}

}  // namespace graphex::frontends::gguf

// A GGUF file, mapped; its tensors' bytes are read where they lie.
#pragma once

#include <memory>
#include <string>

#include "graphex/frontends/gguf/contents.h"

namespace graphex::frontends::gguf {

class File {
 public:
  // Error (kIo) where it can't be opened, (kInvalidArgument) where it isn't as it should be.
  explicit File(const std::string& path);
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  const Contents& contents() const { return contents_; }
  // nullptr where there is none of the name.
  const Tensor* find(const std::string& name) const;

 private:
  std::span<const uint8_t> map_;
  Contents contents_;
};

// The tensor's rows, a matrix [N, K] in a block format, as tiles (base/block_format.h); row i of the tiles is row
// order[i] of the file, or row i where `order` is empty. `to` has ceil(N / kTileRows) * tile_bytes bytes.
void pack(const Tensor& tensor, std::span<const int64_t> order, std::span<uint8_t> to);

}  // namespace graphex::frontends::gguf

// Any bytes are refused with an Error or are a file whose tensors lie inside it; block tensors pack.
#include <cstdint>
#include <cstdlib>

#include "graphex/base/error.h"
#include "graphex/frontends/gguf/file.h"

using namespace graphex;
using namespace graphex::frontends;

static void pack_all(const gguf::Contents& contents) {
  for (const gguf::Tensor& tensor : contents.tensors) {
    for (const BlockFormat& format : kBlockFormats) {
      if (format.gguf_type != tensor.type || tensor.shape.size() != 2 || tensor.data.empty()) continue;
      const int64_t tiles = (tensor.shape[0] + kTileRows - 1) / kTileRows;
      std::vector<uint8_t> packed(static_cast<size_t>(tiles * tile_bytes(format, tensor.shape[1])));
      gguf::pack(tensor, {}, packed);
    }
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    pack_all(gguf::parse({data, size}));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
  }
  return 0;
}

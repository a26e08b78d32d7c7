// What a GGUF file holds (version 2 and 3, little-endian), from its bytes. Every count, length and offset is checked
// against what is there before it is used; what is wrong is an Error (kInvalidArgument) that says where.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "graphex/base/block_format.h"

namespace graphex::frontends::gguf {

// An array's elements are checked and skipped: only its length is kept.
struct ArrayLength {
  uint64_t count;
};
using Metadata = std::variant<uint64_t, int64_t, double, bool, std::string, ArrayLength>;

struct Tensor {
  std::string name;
  uint32_t type;                  // ggml's number
  std::vector<int64_t> shape;     // outermost first, as PyTorch has it
  std::span<const uint8_t> data;  // empty where the type isn't known
};

struct Contents {
  std::map<std::string, Metadata> metadata;
  std::vector<Tensor> tensors;
};

// `bytes` must outlive the result.
Contents parse(std::span<const uint8_t> bytes);

// "q4_1", "f32", ..; "type N" where it isn't known.
std::string type_name(uint32_t type);

// Bytes of a tensor's rows of k elements; 0 where the type isn't known or k isn't a multiple of its block.
uint64_t row_bytes(uint32_t type, int64_t k);

}  // namespace graphex::frontends::gguf

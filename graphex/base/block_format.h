// Formats of weights in blocks, as GGUF files hold them, and the order in which kernels read them.
//
// A tile is kTileRows rows side by side. Block after block along k it holds the same bits as the file, the rows
// interleaved: each section of a block is cut into units (a scale, a byte of packed scales, four bytes of values), and
// unit after unit follows for all rows of the tile.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace graphex {

inline constexpr int64_t kTileRows = 8;
inline constexpr int64_t kBlockGroup = 32;  // inputs that round together

enum BlockFormatId : int { kQ4_0, kQ4_1, kQ8_0, kQ4_K, kQ5_K, kQ6_K };

struct BlockSection {
  int offset, bytes, unit;  // in a file's block
};

struct BlockFormat {
  BlockFormatId id;
  std::string_view name;
  uint32_t gguf_type;
  int64_t elements, bytes;               // of a row's block
  std::array<BlockSection, 4> sections;  // in a tile's order; unused ones are empty
};

inline constexpr BlockFormat kBlockFormats[] = {
    {kQ4_0, "q4_0", 2, 32, 18, {{{0, 2, 2}, {2, 16, 4}}}},
    {kQ4_1, "q4_1", 3, 32, 20, {{{0, 4, 2}, {4, 16, 4}}}},
    {kQ8_0, "q8_0", 8, 32, 34, {{{0, 2, 2}, {2, 32, 4}}}},
    {kQ4_K, "q4_k", 12, 256, 144, {{{0, 4, 2}, {4, 12, 1}, {16, 128, 4}}}},
    {kQ5_K, "q5_k", 13, 256, 176, {{{0, 4, 2}, {4, 12, 1}, {16, 32, 4}, {48, 128, 4}}}},
    {kQ6_K, "q6_k", 14, 256, 210, {{{208, 2, 2}, {192, 16, 1}, {128, 64, 4}, {0, 128, 4}}}},
};

constexpr const BlockFormat* find_block_format(std::string_view name) {
  for (const BlockFormat& format : kBlockFormats)
    if (format.name == name) return &format;
  return nullptr;
}

constexpr const BlockFormat* find_block_format(uint32_t gguf_type) {
  for (const BlockFormat& format : kBlockFormats)
    if (format.gguf_type == gguf_type) return &format;
  return nullptr;
}

// Bytes of a tile for rows of k weights.
constexpr int64_t tile_bytes(const BlockFormat& format, int64_t k) {
  return k / format.elements * format.bytes * kTileRows;
}

}  // namespace graphex

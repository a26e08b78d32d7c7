// GGUF files as they should be, cut short at every byte, and with false numbers in them.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "graphex/base/block_values.h"
#include "graphex/base/error.h"
#include "graphex/frontends/gguf/file.h"

namespace graphex::frontends::gguf {
namespace {

// Writes a file field by field.
struct Writer {
  std::string bytes;

  template <class T>
  Writer& number(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& text(const std::string& value) {
    number<uint64_t>(value.size());
    bytes += value;
    return *this;
  }
  Writer& header(uint64_t tensors, uint64_t pairs, uint32_t version = 3) {
    bytes += "GGUF";
    return number(version).number(tensors).number(pairs);
  }
  Writer& tensor(const std::string& name, const std::vector<uint64_t>& shape, uint32_t type, uint64_t offset) {
    text(name).number(static_cast<uint32_t>(shape.size()));
    for (const uint64_t size : shape) number(size);
    return number(type).number(offset);
  }
  Writer& data(const std::string& content) {
    bytes.resize((bytes.size() + 31) / 32 * 32);
    bytes += content;
    return *this;
  }
};

Contents read(const std::string& bytes) {
  return parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

std::string why(const std::string& bytes) {
  try {
    read(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  return "";
}

std::string counted(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += static_cast<char>(i * 7 + i / 256);
  return text;
}

// Nine rows of 64 weights in Q4_0, and three floats.
std::string whole_file() {
  Writer out;
  out.header(2, 5);
  out.text("general.architecture").number<uint32_t>(8).text("llama");
  out.text("llama.attention.head_count").number<uint32_t>(4).number<uint32_t>(9);
  out.text("a.list").number<uint32_t>(9).number<uint32_t>(8).number<uint64_t>(2).text("x").text("yz");
  out.text("nested").number<uint32_t>(9).number<uint32_t>(9).number<uint64_t>(1).number<uint32_t>(0);
  out.number<uint64_t>(3).bytes += "abc";
  out.text("eps").number<uint32_t>(6).number<float>(0.5f);
  out.tensor("blk.0.attn_q.weight", {64, 9}, 2, 0).tensor("norm", {3}, 0, 9 * 36 / 32 * 32 + 32);
  return out.data(counted(9 * 36 / 32 * 32 + 32 + 12)).bytes;
}

TEST(Gguf, ReadsWhatIsThere) {
  const Contents contents = read(whole_file());
  EXPECT_EQ(std::get<std::string>(contents.metadata.at("general.architecture")), "llama");
  EXPECT_EQ(std::get<uint64_t>(contents.metadata.at("llama.attention.head_count")), 9u);
  EXPECT_EQ(std::get<ArrayLength>(contents.metadata.at("a.list")).count, 2u);
  EXPECT_EQ(std::get<double>(contents.metadata.at("eps")), 0.5);
  ASSERT_EQ(contents.tensors.size(), 2u);
  EXPECT_EQ(contents.tensors[0].shape, (std::vector<int64_t>{9, 64}));
  EXPECT_EQ(type_name(contents.tensors[0].type), "q4_0");
  EXPECT_EQ(contents.tensors[0].data.size(), 9u * 36);
  EXPECT_EQ(contents.tensors[1].data.size(), 12u);
}

TEST(Gguf, PacksRowsInTheOrderGiven) {
  const std::string bytes = whole_file();
  const Contents contents = read(bytes);
  const Tensor& tensor = contents.tensors[0];
  const std::vector<int64_t> order = {8, 0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<uint8_t> tiles(2 * 8 * 36), block(18);
  pack(tensor, order, tiles);
  const BlockFormat& format = *find_block_format("q4_0");
  for (int row = 0; row < 9; ++row)
    for (int index = 0; index < 2; ++index) {
      from_tile(format, tiles.data() + row / 8 * 8 * 36, index, row % 8, block.data());
      EXPECT_TRUE(std::equal(block.begin(), block.end(), tensor.data.begin() + order[row] * 36 + index * 18));
    }
  EXPECT_THROW(pack(tensor, {}, std::span(tiles).first(10)), Error);
  EXPECT_THROW(pack(tensor, std::vector<int64_t>(9, 9), tiles), Error);
  EXPECT_THROW(pack(tensor, std::vector<int64_t>(3, 0), tiles), Error);
  EXPECT_THROW(pack(contents.tensors[1], {}, tiles), Error);
}

TEST(Gguf, CutShortAnywhereIsRefused) {
  const std::string bytes = whole_file();
  for (size_t length = 0; length < bytes.size(); ++length) EXPECT_NE(why(bytes.substr(0, length)), "") << length;
  EXPECT_EQ(why(bytes), "");
}

TEST(Gguf, SaysWhatIsWrong) {
  const auto has = [](const std::string& bytes, const char* part) {
    EXPECT_NE(why(bytes).find(part), std::string::npos) << why(bytes) << " lacks " << part;
  };
  const auto one = [](const std::vector<uint64_t>& shape, uint32_t type, uint64_t offset) {
    return Writer().header(1, 0).tensor("t", shape, type, offset).data(counted(64)).bytes;
  };
  const uint64_t huge = uint64_t{1} << 62;
  has("PK\x03\x04 and so on", "no GGUF file");
  has(Writer().header(0, 0, 1).bytes, "version 1");
  has(Writer().header(0, 0, 0x03000000).bytes, "big-endian");
  has(Writer().header(0, 1).number(huge).bytes, "download complete");
  has(Writer().header(0, 1).text("k").number<uint32_t>(99).bytes, "unknown type 99");
  has(Writer().header(0, 1).text("k").number<uint32_t>(9).number<uint32_t>(0).number(huge).bytes, "an array of");
  has(Writer().header(huge, 0).bytes, "the file ends");
  has(one({1, 1, 1, 1, 1}, 0, 0), "5 dimensions");
  has(one({huge, huge}, 0, 0), "too large");
  has(one({huge, 2}, 0, 0), "too large");
  has(one({16}, 0, 8), "isn't aligned");
  has(one({16}, 0, 32), "beyond the end");
  has(one({16}, 0, huge), "beyond the end");
  has(Writer().header(2, 0).tensor("t", {1}, 0, 0).tensor("t", {1}, 0, 0).data(counted(64)).bytes, "stands twice");
  has(Writer().header(0, 1).text("general.alignment").number<uint32_t>(4).number<uint32_t>(0).bytes, "alignment");
  EXPECT_EQ(why(one({16}, 0, 0)), "");
  EXPECT_EQ(why(one({0, 4}, 0, 0)), "");
  EXPECT_EQ(why(one({16}, 77, 0)), "");  // a type of later times: known by name only
}

TEST(Gguf, FilesThatCannotBeOpenedAreNamed) {
  const auto kind_of = [](const std::string& path) {
    try {
      File file(path);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
      return error.kind();
    }
    return ErrorKind::kInternal;
  };
  EXPECT_EQ(kind_of("/nonexistent/model.gguf"), ErrorKind::kIo);
  EXPECT_EQ(kind_of("/"), ErrorKind::kIo);
  EXPECT_EQ(kind_of("/dev/null"), ErrorKind::kIo);
  const std::string path = testing::TempDir() + "graphex_gguf_test.gguf";
  std::ofstream(path) << "";
  EXPECT_EQ(kind_of(path), ErrorKind::kInvalidArgument);
  std::ofstream(path) << whole_file();
  EXPECT_NE(File(path).find("norm"), nullptr);
  EXPECT_EQ(File(path).find("absent"), nullptr);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace graphex::frontends::gguf

#include "graphex/frontends/gguf/contents.h"

#include <cstring>
#include <set>

#include "graphex/base/error.h"

namespace graphex::frontends::gguf {
namespace {

constexpr uint64_t kMaxRank = 4, kMaxNesting = 4;

struct PlainType {
  uint32_t type;
  const char* name;
  uint64_t bytes;
};
constexpr PlainType kPlainTypes[] = {{0, "f32", 4},  {1, "f16", 2},  {24, "i8", 1},  {25, "i16", 2},
                                     {26, "i32", 4}, {27, "i64", 8}, {28, "f64", 8}, {30, "bf16", 2}};

// Metadata's types, by their numbers in the file.
enum ValueType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  size_t at() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value, "a number"), sizeof value);
    return value;
  }
  std::string text() {
    const uint64_t length = number<uint64_t>();
    return {reinterpret_cast<const char*>(take(length, "a text")), length};
  }
  const uint8_t* take(uint64_t count, const char* what) {
    GX_CHECK(count <= left(), "GGUF: the file ends inside ", what, " of ", count, " bytes at offset ", at_, "; ",
             left(), " are left. Is the download complete?");
    const uint8_t* start = bytes_.data() + at_;
    at_ += count;
    return start;
  }

  Metadata value(uint32_t type, uint64_t nesting = 0) {
    switch (type) {
      case kU8:
        return uint64_t{number<uint8_t>()};
      case kI8:
        return int64_t{number<int8_t>()};
      case kU16:
        return uint64_t{number<uint16_t>()};
      case kI16:
        return int64_t{number<int16_t>()};
      case kU32:
        return uint64_t{number<uint32_t>()};
      case kI32:
        return int64_t{number<int32_t>()};
      case kF32:
        return double{number<float>()};
      case kBool:
        return number<uint8_t>() != 0;
      case kString:
        return text();
      case kArray:
        return array(nesting);
      case kU64:
        return number<uint64_t>();
      case kI64:
        return number<int64_t>();
      case kF64:
        return number<double>();
      default:
        fail(ErrorKind::kInvalidArgument, "GGUF: metadata of the unknown type ", type, " at offset ", at_);
    }
  }

 private:
  // Every element takes a byte at least, so that a false count ends at the file's end.
  ArrayLength array(uint64_t nesting) {
    GX_CHECK(nesting < kMaxNesting, "GGUF: arrays nested deeper than ", kMaxNesting, " at offset ", at_);
    const uint32_t type = number<uint32_t>();
    const uint64_t count = number<uint64_t>();
    GX_CHECK(count <= left(), "GGUF: an array of ", count, " elements at offset ", at_, ", where ", left(),
             " bytes are left");
    for (uint64_t i = 0; i < count; ++i) value(type, nesting + 1);
    return {count};
  }

  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

void read_header(Reader& in) {
  GX_CHECK(in.left() >= 4 && std::memcmp(in.take(4, "the magic"), "GGUF", 4) == 0,
           "this is no GGUF file: it doesn't begin with 'GGUF'");
  const auto version = in.number<uint32_t>();
  GX_CHECK((version & 0xffff) != 0, "GGUF: the file is big-endian; convert it on a little-endian machine");
  GX_CHECK(version == 2 || version == 3, "GGUF: version ", version, "; expected 2 or 3");
}

uint64_t alignment_of(const Contents& contents) {
  const auto found = contents.metadata.find("general.alignment");
  if (found == contents.metadata.end()) return 32;
  const auto* value = std::get_if<uint64_t>(&found->second);
  GX_CHECK(value && *value && *value % 8 == 0 && *value <= 1 << 20,
           "GGUF: general.alignment must be a multiple of 8 up to 1 MiB");
  return *value;
}

struct Place {
  uint64_t offset, bytes;
};

// The sizes of a tensor and where it lies from the start of the data.
Place read_tensor(Reader& in, Tensor& tensor) {
  tensor.name = in.text();
  const auto rank = in.number<uint32_t>();
  GX_CHECK(rank <= kMaxRank, "GGUF: tensor '", tensor.name, "' has ", rank, " dimensions; expected 4 at most");
  uint64_t count = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    const auto size = in.number<uint64_t>();
    GX_CHECK(size <= INT64_MAX && !__builtin_mul_overflow(count, size, &count) && count <= INT64_MAX, "GGUF: tensor '",
             tensor.name, "' is too large");
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
  }
  tensor.type = in.number<uint32_t>();
  const auto offset = in.number<uint64_t>();
  const int64_t k = rank ? tensor.shape.back() : 1;
  uint64_t bytes = 0;
  GX_CHECK(!__builtin_mul_overflow(row_bytes(tensor.type, k), k ? count / static_cast<uint64_t>(k) : 0, &bytes),
           "GGUF: tensor '", tensor.name, "' is too large");
  return {offset, bytes};
}

}  // namespace

std::string type_name(uint32_t type) {
  if (const BlockFormat* format = find_block_format(type)) return std::string(format->name);
  for (const PlainType& plain : kPlainTypes)
    if (plain.type == type) return plain.name;
  return "type " + std::to_string(type);
}

uint64_t row_bytes(uint32_t type, int64_t k) {
  uint64_t bytes = 0;
  for (const PlainType& plain : kPlainTypes)
    if (plain.type == type && __builtin_mul_overflow(static_cast<uint64_t>(k), plain.bytes, &bytes)) return UINT64_MAX;
  const BlockFormat* format = find_block_format(type);
  if (format && k % format->elements == 0 &&
      __builtin_mul_overflow(static_cast<uint64_t>(k / format->elements), static_cast<uint64_t>(format->bytes), &bytes))
    return UINT64_MAX;
  return bytes;
}

Contents parse(std::span<const uint8_t> bytes) {
  Reader in(bytes);
  read_header(in);
  const auto tensors = in.number<uint64_t>(), pairs = in.number<uint64_t>();
  Contents contents;
  for (uint64_t i = 0; i < pairs; ++i) {
    std::string key = in.text();
    const auto type = in.number<uint32_t>();
    GX_CHECK(contents.metadata.emplace(key, in.value(type)).second, "GGUF: the key '", key, "' stands twice");
  }
  std::vector<Place> places;
  std::set<std::string> names;
  for (uint64_t i = 0; i < tensors; ++i) {
    places.push_back(read_tensor(in, contents.tensors.emplace_back()));
    const std::string& name = contents.tensors.back().name;
    GX_CHECK(names.insert(name).second, "GGUF: the tensor '", name, "' stands twice");
  }
  const uint64_t alignment = alignment_of(contents), start = (in.at() + alignment - 1) / alignment * alignment;
  for (size_t i = 0; i < places.size(); ++i) {
    const auto [offset, size] = places[i];
    GX_CHECK(offset % alignment == 0, "GGUF: tensor '", contents.tensors[i].name, "' isn't aligned to ", alignment);
    if (size == 0) continue;
    GX_CHECK(start <= bytes.size() && offset <= bytes.size() - start && size <= bytes.size() - start - offset,
             "GGUF: tensor '", contents.tensors[i].name, "' of ", size, " bytes lies beyond the end of the file. ",
             "Is the download complete?");
    contents.tensors[i].data = bytes.subspan(start + offset, size);
  }
  return contents;
}

}  // namespace graphex::frontends::gguf

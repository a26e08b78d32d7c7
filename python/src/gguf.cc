// graphex._core.GgufFile: a GGUF file's tensors, and their blocks in the order that kernels read.
#include "gguf.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "gil.h"
#include "graphex/base/error.h"
#include "graphex/frontends/gguf/file.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace graphex::python {
namespace {

using frontends::gguf::File;

// A number, a text or a flag; None for a list or where the key is missing.
nb::object metadata(const File& file, const std::string& key) {
  const auto found = file.contents().metadata.find(key);
  if (found == file.contents().metadata.end()) return nb::none();
  return std::visit(
      [](const auto& value) -> nb::object {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, frontends::gguf::ArrayLength>)
          return nb::none();
        else
          return nb::cast(value);
      },
      found->second);
}

nb::dict tensors(const File& file) {
  nb::dict out;
  for (const auto& tensor : file.contents().tensors)
    out[tensor.name.c_str()] = nb::make_tuple(frontends::gguf::type_name(tensor.type), tensor.shape);
  return out;
}

void pack(const File& file, const std::string& name, const std::vector<int64_t>& order, uintptr_t to, size_t bytes) {
  const auto* tensor = file.find(name);
  GX_CHECK(tensor, "GGUF: there is no tensor '", name, "'");
  const GilRelease unlocked;
  frontends::gguf::pack(*tensor, order, {reinterpret_cast<uint8_t*>(to), bytes});
}

// Name -> (elements and bytes of a block, [(offset, bytes, unit) of each section in a tile's order]).
nb::dict block_formats() {
  nb::dict out;
  for (const BlockFormat& format : kBlockFormats) {
    std::vector<std::tuple<int, int, int>> sections;
    for (const BlockSection& each : format.sections)
      if (each.bytes) sections.emplace_back(each.offset, each.bytes, each.unit);
    out[std::string(format.name).c_str()] = nb::make_tuple(format.elements, format.bytes, sections);
  }
  return out;
}

}  // namespace

void define_gguf(nb::module_& m) {
  nb::class_<File>(m, "GgufFile")
      .def(nb::init<const std::string&>(), "path"_a)
      .def_prop_ro("tensors", &tensors)
      .def("metadata", &metadata, "key"_a)
      .def("pack", &pack, "name"_a, "order"_a, "to"_a, "bytes"_a);
  m.def("block_formats", &block_formats);
}

}  // namespace graphex::python

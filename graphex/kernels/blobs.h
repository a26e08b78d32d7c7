// The kernels as data: LLVM bitcode of every file under graphex/kernels, once per ISA level, embedded at build time.
// codegen/ looks a family up by name and level, sets its knobs and compiles it for the host.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace graphex::kernels {

struct Blob {
  std::string_view name;   // the file's stem: "matmul" for kernels/matmul/matmul.cc
  std::string_view level;  // a name of codegen/isa.h
  const char* data;        // 16-byte aligned; lives as long as the process
  size_t size;
};

std::span<const Blob> blobs();

}  // namespace graphex::kernels

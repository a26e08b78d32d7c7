// torch tensors without linking torch: the DLPack C exchange API that the tensor type carries, and torch's own
// allocator.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>

#include "graphex/base/dtype.h"

namespace graphex::python {

namespace nb = nanobind;

struct TensorInfo {
  char* data;
  DType dtype;
  int rank;
  const int64_t* shape;  // valid while the tensor lives and isn't resized
  const int64_t* strides;
};

// Reads a torch.Tensor, torch.nn.Parameter or a subclass without __torch_dispatch__. Throws TypeError or ValueError
// with `what` in the text.
TensorInfo read_tensor(nb::handle tensor, const char* what, int number);

// torch's functions, looked up once per process. References are kept for good: they outlive the interpreter's teardown.
struct Torch {
  static const Torch& get();
  nb::object empty_strided;       // torch._C._dynamo.guards._empty_strided_cpu(shape, strides, dtype)
  nb::object as_strided;          // torch.as_strided
  nb::object reinterpret_tensor;  // torch._C._dynamo.guards._reinterpret_tensor(base, shape, strides, offset from base)
  nb::object get_num_threads;
  nb::object is_inference_mode_enabled;
  nb::object tensor_type, parameter_type, no_torch_dispatch;
  nb::object dtypes[kDTypeCount];
};

nb::object make_tensor(std::span<const int64_t> shape, std::span<const int64_t> strides, DType dtype);
nb::object make_view(nb::handle base, std::span<const int64_t> shape, std::span<const int64_t> strides,
                     int64_t storage_offset);

}  // namespace graphex::python

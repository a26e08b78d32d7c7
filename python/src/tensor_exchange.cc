#include "tensor_exchange.h"

#include <algorithm>
#include <bit>
#include <string>

namespace graphex::python {
namespace {

// The parts of DLPack's C interface that we use (dlpack.h 1.3, dmlc.github.io/dlpack).
struct DlDevice {
  int32_t type, id;
};
struct DlDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  int32_t ndim;
  DlDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DlExchangeApi {
  uint32_t major, minor;
  DlExchangeApi* previous;
  void* allocator;
  void* from_py;
  void* to_py;
  int (*dltensor_from_py)(void* object, DlTensor* out);
  void* current_work_stream;
};

constexpr int32_t kCpu = 1;

const DlExchangeApi& exchange_of(nb::handle tensor_type) {
  const nb::object capsule = tensor_type.attr("__dlpack_c_exchange_api__");
  auto* api = static_cast<DlExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (!api || api->major != 1)
    throw nb::import_error("graphex needs PyTorch's DLPack exchange API 1.x; use torch 2.13.0");
  return *api;
}

bool dtype_of(DlDataType type, DType& out) {
  constexpr int kNone = -1;
  constexpr auto of = [](DType dtype) { return static_cast<int>(dtype); };
  // By code (int, uint, float, opaque, bfloat, complex, bool) and bytes (1, 2, 4, 8).
  constexpr int kTable[7][4] = {{of(DType::kI8), of(DType::kI16), of(DType::kI32), of(DType::kI64)},
                                {of(DType::kU8), kNone, kNone, kNone},
                                {kNone, of(DType::kF16), of(DType::kF32), of(DType::kF64)},
                                {kNone, kNone, kNone, kNone},
                                {kNone, of(DType::kBF16), kNone, kNone},
                                {kNone, kNone, kNone, kNone},
                                {of(DType::kBool), kNone, kNone, kNone}};
  if (type.code > 6 || type.lanes != 1 || type.bits < 8 || type.bits > 64 || !std::has_single_bit(type.bits))
    return false;
  const int found = kTable[type.code][std::countr_zero(type.bits) - 3];
  out = static_cast<DType>(found);
  return found != kNone;
}

std::string place(const char* what, int number) {
  return std::string("graphex: ") + what + " " + std::to_string(number);
}

[[noreturn]] void refuse(const char* what, int number, const std::string& why) {
  throw nb::value_error((place(what, number) + ": " + why).c_str());
}

nb::object list_of(std::span<const int64_t> values) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; i < values.size(); ++i)
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(values[i]));
  return tuple;
}

bool has_exact_type(nb::handle object) {
  const Torch& torch = Torch::get();
  const nb::handle type = reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()));
  return type.is(torch.tensor_type) || type.is(torch.parameter_type);
}

// Whether the object is a tensor with memory of its own: a Tensor, a Parameter, or of a class derived from them that
// leaves the dispatcher alone. One that doesn't may be a wrapper around others.
bool is_plain_tensor(nb::handle object) {
  if (has_exact_type(object)) return true;
  const Torch& torch = Torch::get();
  PyTypeObject* type = Py_TYPE(object.ptr());
  return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(torch.tensor_type.ptr())) &&
         nb::handle(reinterpret_cast<PyObject*>(type)).attr("__torch_dispatch__").is(torch.no_torch_dispatch);
}

}  // namespace

TensorInfo read_tensor(nb::handle tensor, const char* what, int number) {
  if (!is_plain_tensor(tensor))
    throw nb::type_error(
        (place(what, number) + ": expected a torch.Tensor or torch.nn.Parameter, got " + Py_TYPE(tensor.ptr())->tp_name)
            .c_str());
  static const DlExchangeApi& api = exchange_of(Torch::get().tensor_type);
  DlTensor view;
  if (api.dltensor_from_py(tensor.ptr(), &view) != 0) throw nb::python_error();
  TensorInfo info;
  if (view.device.type != kCpu) refuse(what, number, "expected a CPU tensor; move it by .cpu()");
  if (!dtype_of(view.dtype, info.dtype)) refuse(what, number, "its dtype has no kernels here");
  if (!view.data && std::find(view.shape, view.shape + view.ndim, 0) == view.shape + view.ndim)
    refuse(what, number, "it has no memory of its own (fake, resized to nothing, or a wrapper)");
  info.data = static_cast<char*>(view.data) + view.byte_offset;
  info.rank = view.ndim;
  info.shape = view.shape;
  info.strides = view.strides;
  return info;
}

const Torch& Torch::get() {
  static const Torch* kTorch = [] {
    auto* torch = new Torch();
    const nb::module_ module = nb::module_::import_("torch");
    torch->empty_strided = nb::module_::import_("torch._C._dynamo.guards").attr("_empty_strided_cpu");
    torch->as_strided = module.attr("as_strided");
    torch->reinterpret_tensor = nb::module_::import_("torch._C._dynamo.guards").attr("_reinterpret_tensor");
    torch->get_num_threads = module.attr("get_num_threads");
    torch->is_inference_mode_enabled = module.attr("is_inference_mode_enabled");
    torch->tensor_type = module.attr("Tensor");
    torch->parameter_type = module.attr("nn").attr("Parameter");
    torch->no_torch_dispatch = module.attr("_C").attr("_disabled_torch_dispatch_impl");
    constexpr const char* kNames[kDTypeCount] = {"bool",  "uint8",   "int8",     "int16",   "int32",
                                                 "int64", "float16", "bfloat16", "float32", "float64"};
    for (int i = 0; i < kDTypeCount; ++i) torch->dtypes[i] = module.attr(kNames[i]);
    return torch;
  }();
  return *kTorch;
}

nb::object make_tensor(std::span<const int64_t> shape, std::span<const int64_t> strides, DType dtype) {
  const Torch& torch = Torch::get();
  const nb::object sizes = list_of(shape), steps = list_of(strides);
  PyObject* args[] = {sizes.ptr(), steps.ptr(), torch.dtypes[static_cast<int>(dtype)].ptr()};
  PyObject* made = PyObject_Vectorcall(torch.empty_strided.ptr(), args, 3, nullptr);
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

nb::object make_view(nb::handle base, std::span<const int64_t> shape, std::span<const int64_t> strides,
                     int64_t storage_offset) {
  const Torch& torch = Torch::get();
  // A subclass may have something to say to as_strided, and AOTAutograd's modes refuse it there.
  const bool exact = has_exact_type(base);
  const int64_t start = exact ? storage_offset : storage_offset - nb::cast<int64_t>(base.attr("storage_offset")());
  const nb::object sizes = list_of(shape), steps = list_of(strides), offset = nb::int_(start);
  PyObject* args[] = {base.ptr(), sizes.ptr(), steps.ptr(), offset.ptr()};
  PyObject* made = PyObject_Vectorcall((exact ? torch.as_strided : torch.reinterpret_tensor).ptr(), args, 4, nullptr);
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

}  // namespace graphex::python

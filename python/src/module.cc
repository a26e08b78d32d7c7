// graphex._core: the native half of the package. python/graphex/signature.md is the contract.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "call.h"
#include "gguf.h"
#include "gil.h"
#include "graphex/base/error.h"
#include "graphex/codegen/code_memory.h"
#include "graphex/codegen/isa.h"
#include "graphex/codegen/object_cache.h"
#include "graphex/passes/passes.h"
#include "graphex/runtime/cpu/probe.h"
#include "graphex/runtime/cpu/usable_cpus.h"
#include "streams.h"
#include "trace.h"

namespace nb = nanobind;
using namespace nb::literals;
namespace fs = std::filesystem;
namespace gx = graphex;

namespace {

template <class T>
T option(const nb::dict& options, const char* name, T fallback) {
  return options.contains(name) ? nb::cast<T>(options[name]) : fallback;
}

// One compiler per instruction-set cap and cache folder: kernels are shared by all programs of the process.
std::shared_ptr<gx::codegen::KernelCompiler> compiler_for(const std::string& isa, const std::string& cache_dir) {
  static auto* compilers =
      new std::map<std::pair<std::string, std::string>, std::shared_ptr<gx::codegen::KernelCompiler>>();
  auto& slot = (*compilers)[{isa, cache_dir}];
  if (slot) return slot;
  gx::codegen::CompilerOptions options;
  if (isa != "native" && !isa.empty()) options.isa = gx::codegen::parse_isa(isa);
  options.use_cache = cache_dir != "off";
  if (options.use_cache) options.cache_dir = cache_dir;
  return slot = std::make_shared<gx::codegen::KernelCompiler>(options);
}

// A writer of graphs into a new folder of `dump_dir`, one file a pass, numbered in order.
gx::passes::Dump dump_into(const std::string& dump_dir) {
  static std::atomic<int> graphs{0};
  const auto folder = fs::path(dump_dir) / (std::to_string(getpid()) + "-" + std::to_string(graphs++));
  fs::create_directories(folder);
  return [folder, files = 0](const char* pass, const std::string& text) mutable {
    char number[16];
    std::snprintf(number, sizeof number, "%02d-", files++);
    std::ofstream file(folder / (std::string(number) + pass + ".gx"));
    file << text;
    file.close();
    if (!file) gx::fail(gx::ErrorKind::kIo, "dump_dir: can't write to ", folder.string());
  };
}

gx::compile::Options compile_options_of(const nb::dict& options) {
  gx::compile::Options out;
  out.emulate_precision_casts = option(options, "emulate_precision_casts", false);
  for (const auto& name : option(options, "disable_passes", std::vector<std::string>()))
    out.passes.disabled.insert(name);
  return out;
}

// Throws what is wrong with options that the tables of Python can't see.
void check_options(const nb::dict& options) {
  gx::passes::check_names(compile_options_of(options).passes.disabled);
  compiler_for(option(options, "isa", std::string("native")), option(options, "cache_dir", std::string()));
  const std::string dump_dir = option(options, "dump_dir", std::string());
  std::error_code problem;
  if (!dump_dir.empty()) fs::create_directories(dump_dir, problem);
  if (!dump_dir.empty() && (!fs::is_directory(dump_dir) || access(dump_dir.c_str(), W_OK) != 0))
    gx::fail(gx::ErrorKind::kIo, "dump_dir '", dump_dir, "' is no folder that can be written to");
}

gx::python::Compiled* compile(const std::string& text, nb::dict signature, nb::list islands, nb::dict options) {
  auto graph = gx::ir::parse(text);
  auto parsed = gx::python::read_signature(signature, graph->symbols, static_cast<int>(graph->inputs.size()),
                                           static_cast<int>(graph->outputs.size()));
  gx::compile::Options compile_options = compile_options_of(options);
  if (const std::string dump_dir = option(options, "dump_dir", std::string()); !dump_dir.empty()) {
    compile_options.passes.dump = dump_into(dump_dir);
    compile_options.passes.dump("lowered", text);
  }
  const auto compiler =
      compiler_for(option(options, "isa", std::string("native")), option(options, "cache_dir", std::string()));
  gx::compile::Report report;
  std::shared_ptr<const gx::runtime::Program> program;
  {
    const gx::python::GilRelease unlocked;
    program = gx::compile::compile(std::move(graph), compiler, compile_options, &report);
  }
  return new gx::python::Compiled(std::move(program), std::move(parsed), std::move(islands), std::move(report),
                                  {.threads = option(options, "threads", 0),
                                   .profile = option(options, "profile", false),
                                   .huge_pages = option(options, "huge_pages", true)});
}

nb::dict probe(gx::runtime::Prober& prober, double seconds) {
  gx::runtime::Probe found;
  {
    const gx::python::GilRelease unlocked;
    found = prober.probe(seconds);
  }
  nb::dict out;
  out["workers"] = found.workers;
  out["buffer_bytes"] = found.buffer_bytes;
  const std::pair<const char*, gx::runtime::Rate> rates[] = {{"read", found.read}, {"copy", found.copy},
                                                             {"fp32", found.fp32}, {"bf16", found.bf16},
                                                             {"int8", found.int8}, {"int4", found.int4}};
  for (const auto& [name, rate] : rates) {
    out[name] = rate.per_second;
    out[(std::string(name) + "_loop").c_str()] = rate.loop;
  }
  return out;
}

// Measures, again and again, what this machine can do; holds its gigabyte of memory for that.
void define_probe(nb::module_& m) {
  nb::class_<gx::runtime::Prober>(m, "Prober")
      .def(
          "__init__",
          [](gx::runtime::Prober* self, int workers) {
            new (self) gx::runtime::Prober(workers > 0 ? workers : gx::runtime::usable_cpus());
          },
          "workers"_a = 0)
      .def("probe", &probe, "seconds"_a = 0.3, "Rates a second: bytes read and copied, operations by type.");
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? nb::inst_ptr<gx::python::Compiled>(self)->traverse(visit, arg) : 0;
}

int clear(PyObject* self) {
  nb::inst_ptr<gx::python::Compiled>(self)->clear();
  return 0;
}

PyType_Slot kSlots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_clear, reinterpret_cast<void*>(clear)}, {0, nullptr}};

PyObject* python_kind(gx::ErrorKind kind) {
  switch (kind) {
    case gx::ErrorKind::kInvalidArgument:
      return PyExc_ValueError;
    case gx::ErrorKind::kUnsupported:
      return PyExc_NotImplementedError;
    case gx::ErrorKind::kOutOfMemory:
      return PyExc_MemoryError;
    case gx::ErrorKind::kIo:
      return PyExc_OSError;
    case gx::ErrorKind::kIndex:
      return PyExc_IndexError;
    case gx::ErrorKind::kRuntime:
    case gx::ErrorKind::kInternal:
      break;
  }
  return PyExc_RuntimeError;
}

}  // namespace

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);  // torch keeps compiled graphs until the process ends
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const gx::Error& error) {
      PyErr_SetString(python_kind(error.kind()), error.what());
    }
  });
  nb::class_<gx::runtime::ArenaPool>(m, "Pool")
      .def(nb::init<>())
      .def_prop_ro("idle_bytes", &gx::runtime::ArenaPool::idle_bytes);
  nb::class_<gx::python::Compiled>(m, "Program", nb::type_slots(kSlots), nb::dynamic_attr(),
                                   nb::is_weak_referenceable())
      .def("__call__", &gx::python::Compiled::call, "args"_a)
      .def(
          "enqueue",
          [](nb::object self, nb::list args, gx::runtime::Stream& stream) {
            return nb::cast<gx::python::Compiled&>(self).enqueue(self, std::move(args), stream);
          },
          "args"_a, "stream"_a)
      .def("explain", &gx::python::Compiled::explain)
      .def("describe", [](const gx::python::Compiled& compiled) { return gx::python::describe(compiled.program()); })
      .def("share_memory", &gx::python::Compiled::share_memory, "pool"_a)
      .def_prop_ro("graph", &gx::python::Compiled::graph_text);
  gx::python::define_gguf(m);
  gx::python::define_streams(m);
  gx::python::define_trace(m);
  m.def("set_capturing", &gx::python::set_capturing, "capturing"_a);
  define_probe(m);
  m.def(
      "unsupported", [](const std::string& text) { return gx::compile::unsupported(*gx::ir::parse(text)); }, "text"_a);
  m.def("level", [] { return std::string(gx::codegen::name_of(gx::codegen::detect_isa())); });
  m.def("cache_folder", &gx::codegen::default_cache_folder);
  m.def("code_memory", [] { return gx::codegen::CodeMemory(gx::codegen::default_cache_folder()).way(); });
  m.def("check_options", &check_options, "options"_a);
  m.def("compile", &compile, "text"_a, "signature"_a, "islands"_a, "options"_a);
}

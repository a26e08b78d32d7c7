// The C++ door: a graph compiled once and called with plain memory at any sizes that fit its types.
//
// A call checks its inputs against the graph (number, dtype, rank, sizes, strides, overlap with written memory), reads
// the symbols off them, replays, and returns tensors that own their memory or are views of the inputs. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "graphex/compile/compile.h"
#include "graphex/runtime/team.h"

namespace graphex::compile {

struct Tensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements
  void* data = nullptr;
  std::shared_ptr<void> memory;  // keeps data alive; may be empty for memory that the caller keeps

  // New row-major memory, 64-byte aligned, contents undefined.
  static Tensor make(DType dtype, std::vector<int64_t> shape);
  // Row-major memory of the caller's.
  static Tensor over(void* data, DType dtype, std::vector<int64_t> shape);
  int64_t numel() const;
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// What functions share: the compiler with its kernels, and the workers.
struct Context {
  std::shared_ptr<codegen::KernelCompiler> compiler;
  std::shared_ptr<runtime::Team> team;
  int workers = 0;  // of the team, for each call; 0: all

  // A compiler with default options and as many workers as this process may run.
  static Context make();
};

class Function {
 public:
  // Throws Error naming the place in the text, the node, or the symbol that no input determines.
  Function(const Context& context, std::string_view text, const Options& options = {});
  Function(const Context& context, std::unique_ptr<ir::Graph> graph, const Options& options = {});

  std::vector<Tensor> operator()(std::span<const Tensor> inputs) const;
  std::vector<Tensor> operator()(std::initializer_list<Tensor> inputs) const {
    return (*this)(std::span(inputs.begin(), inputs.size()));
  }

  const Report& report() const { return report_; }
  const runtime::Program& program() const { return *program_; }

 private:
  // Where a symbol's value is found.
  struct SymbolSource {
    int input;
    int dim;
    bool stride;
  };
  class Call;

  std::vector<int64_t> read_symbols(std::span<const Tensor> inputs) const;
  void check_input(int input, const Tensor& tensor, const runtime::Frame& frame) const;

  Context context_;
  Report report_;
  std::vector<std::string> input_names_;
  std::vector<SymbolSource> symbols_;
  std::shared_ptr<const runtime::Program> program_;
};

}  // namespace graphex::compile

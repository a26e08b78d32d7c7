// Writes the tape: units become launches whose pointers, sizes and kernels are in terms of runtime::ProgramParts.
#pragma once

#include <string>
#include <vector>

#include "graphex/codegen/compiler.h"
#include "graphex/compile/loop_lowering.h"
#include "graphex/compile/storage.h"
#include "graphex/runtime/program.h"

namespace graphex::compile {

class Lowering {
 public:
  Lowering(const ir::Graph& graph, const std::vector<std::unique_ptr<Unit>>& units, const Storage& storage,
           const LoopOptions& loop_options);

  // The whole graph. Kernels are still requests; `finish` resolves them.
  void run();
  const std::vector<codegen::KernelRequest>& requests() const { return requests_; }
  runtime::ProgramParts finish(const std::vector<codegen::Kernel>& kernels);

  // For the kernel table.
  runtime::SizeId size(const ir::Expr& expr);
  runtime::SizeId bits_of(double number);
  // Where a value's first element lies.
  runtime::Pointer pointer(ir::Value* value, bool written = false);
  runtime::Pointer pointer_at(ir::Value* base, const ir::Expr& offset, bool written);
  // Memory that only these launches use; its size is what step `step`'s workspace function says.
  runtime::Pointer workspace();
  // Memory that one node's launches use among themselves.
  runtime::Pointer temporary(const ir::Expr& bytes);
  void launch(codegen::KernelRequest request, std::string name, std::vector<runtime::Pointer> pointers,
              std::vector<runtime::SizeId> sizes, bool owns_workspace = false);
  void hand(const std::string& module, const std::string& entry, std::vector<std::pair<std::string, int64_t>> knobs,
            const ir::Node& node, std::vector<runtime::Pointer> pointers, std::vector<runtime::SizeId> sizes,
            bool owns_workspace = false);
  // What an index out of range in the last launch is reported as.
  void set_fault(ErrorKind kind) { std::get<runtime::Launch>(parts_.steps.back()).fault = kind; }
  // Copies `from` (its own layout) to the layout `strides` at `to`.
  void copy(ir::Value* from, runtime::Pointer to, const std::vector<ir::Expr>& strides);
  // For an overwriting node: brings the old values to the result's memory unless they are there.
  void start_overwrite(const ir::Node& node);

 private:
  void lower_unit(const Unit& unit);
  void mark(const ir::Node& node, size_t first_step);
  void lower_island(const ir::Node& node);
  void lower_loop_unit(const Unit& unit);
  void lower_transpose(const ir::Node& node);
  runtime::TensorView view_of(ir::Value* value);
  runtime::SizeId extent_bytes(const ir::Type& type);
  void set_lifetimes();

  const ir::Graph& graph_;
  const std::vector<std::unique_ptr<Unit>>& units_;
  const Storage& storage_;
  const LoopOptions& loop_options_;
  runtime::ProgramParts parts_;
  std::vector<codegen::KernelRequest> requests_;
  std::vector<int> request_of_step_;
};

}  // namespace graphex::compile

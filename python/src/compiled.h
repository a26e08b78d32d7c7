// graphex._core.Program: a runtime::Program with torch tensors around it.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "graphex/compile/compile.h"
#include "graphex/runtime/stream.h"
#include "signature.h"
#include "tensor_exchange.h"

namespace graphex::python {

// The team that all programs of this process share.
runtime::Team& shared_team();

// While this thread records a region, calling a program would compute what must only be recorded: it is refused.
void set_capturing(bool capturing);

struct CallOptions {
  int threads;      // of a replay; 0 is as many as PyTorch uses
  bool profile;     // each step is timed
  bool huge_pages;  // the first call moves its inputs there
};

class Compiled {
 public:
  Compiled(std::shared_ptr<const runtime::Program> program, Signature signature, nb::list islands,
           compile::Report report, CallOptions options);

  // Boxed: takes the items of `args` and clears it.
  nb::list call(nb::list args);
  // Queues the call on a stream, if it can run there and returns nothing; else returns false and leaves `args` alone.
  // `self` is the Python object of this.
  bool enqueue(nb::object self, nb::list args, runtime::Stream& stream);
  void count_call();
  nb::dict explain() const;
  // Replays take their working memory from a pool that other programs may use too.
  void share_memory(std::shared_ptr<runtime::ArenaPool> pool) { pool_ = std::move(pool); }
  const runtime::Program& program() const { return *program_; }
  const std::string& graph_text() const { return report_.graph; }
  // Inputs that the program or its caller's sizes look at. The others cost a call nothing.
  const std::vector<int>& used_inputs() const { return used_inputs_; }

  int traverse(visitproc visit, void* arg) const;
  void clear();

 private:
  friend class Call;

  std::shared_ptr<const runtime::Program> program_;
  Signature signature_;
  nb::list islands_;
  compile::Report report_;
  CallOptions options_;
  bool writes_ = false;
  std::shared_ptr<runtime::ArenaPool> pool_;
  std::vector<int> used_inputs_;
  std::atomic<bool> called_ = false;
  std::atomic<size_t> huge_page_bytes_ = 0;  // of inputs

  mutable std::mutex mutex_;  // the counters below
  int64_t calls_ = 0, eager_calls_ = 0;
  double last_seconds_ = 0, total_seconds_ = 0;  // from entry to return, results included
};

}  // namespace graphex::python

// One call of a Compiled: binds tensors to a frame, serves the program's requests, makes the results.
#pragma once

#include <optional>

#include "compiled.h"
#include "gil.h"
#include "graphex/runtime/stream.h"

namespace graphex::python {

class Call : public runtime::Host {
 public:
  Call(Compiled& compiled, std::vector<nb::object> args);
  ~Call() override;

  // Nothing ran yet: the program would write what only eager PyTorch may, so it must serve this call.
  bool must_run_eagerly() const { return eager_; }
  // Returns the bytes that lie there now. For inputs that later calls bring again: weights and caches.
  size_t move_inputs_to_huge_pages() const;
  void run();
  // Whether a stream can run it by itself: nothing in it needs Python.
  bool can_be_queued() const;
  // Its run, by a stream, for a call that can be queued. `owner` is what keeps the program alive until then.
  static void queue(std::unique_ptr<Call> call, runtime::Stream& stream, nb::object owner);
  nb::list results();
  std::vector<nb::object> take_args() { return std::move(args_); }

  void* allocate(int buffer, const runtime::Frame& frame) override;
  void call(const runtime::Island& island, runtime::Frame& frame) override;
  void release(int buffer) override { tensors_[buffer].reset(); }
  void enter_tape() override {
    if (!owner_) unlocked_.emplace();
  }
  void leave_tape() override { unlocked_.reset(); }

 private:
  void bind_symbols();
  void bind_inputs();
  void check_input(int input, const TensorInfo& info);
  void find_reason_for_eager();
  bool writes_inference_tensor() const;
  int workers(int most) const;
  void run_on(runtime::Team& team, int workers);
  nb::object tensor_at(const runtime::TensorView& view);
  nb::object view_at(nb::handle base, const runtime::TensorView& view);
  std::vector<nb::object> output_tensors();
  nb::handle input_tensor(int input) const;
  std::vector<int64_t> values_of(const std::vector<runtime::SizeId>& ids) const;
  bool is_layout(const runtime::TensorView& view, const runtime::TensorView& base) const;

  Compiled& compiled_;
  const runtime::ProgramParts& parts_;
  std::vector<nb::object> args_;
  std::vector<int64_t> symbols_;
  std::vector<TensorInfo> infos_;    // per input
  std::vector<nb::object> tensors_;  // per buffer: what the host made
  std::unique_ptr<runtime::Frame> frame_;
  std::optional<GilRelease> unlocked_;
  nb::object owner_;  // of a queued call
  bool eager_ = false;
};

}  // namespace graphex::python

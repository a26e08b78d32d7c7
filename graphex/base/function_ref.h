// A borrowed callable: two pointers, no allocation. For callbacks that are called before the callee returns; never
// store one beyond that.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace graphex {

template <class Signature>
class FunctionRef;

template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
                                              std::is_invocable_r_v<Result, F&, Args...>>>
  FunctionRef(F&& f)  // NOLINT: implicit, so that a lambda can be passed as it is
      : target_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* target, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<F>*>(target))(std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(target_, std::forward<Args>(args)...); }

 private:
  void* target_;
  Result (*call_)(void*, Args...);
};

}  // namespace graphex

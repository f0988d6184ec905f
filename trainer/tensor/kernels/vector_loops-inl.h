// The loops that kernels of all kinds are made of, for the instruction set that is being compiled.
#if defined(MILLRACE_TRAINER_TENSOR_KERNELS_VECTOR_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MILLRACE_TRAINER_TENSOR_KERNELS_VECTOR_LOOPS_INL_H_
#undef MILLRACE_TRAINER_TENSOR_KERNELS_VECTOR_LOOPS_INL_H_
#else
#define MILLRACE_TRAINER_TENSOR_KERNELS_VECTOR_LOOPS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Tag = hn::ScalableTag<T>;

template <typename T>
int64_t lanes() {
  return static_cast<int64_t>(hn::Lanes(Tag<T>()));
}

// One vector of `count` values and zeros after them, so that a rest goes through the same arithmetic as the others.
template <typename T>
HWY_ATTR HWY_INLINE hn::Vec<Tag<T>> load_rest(const T* x, int64_t count) {
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(T)] = {};
  std::memcpy(buffer, x, static_cast<size_t>(count) * sizeof(T));
  return hn::Load(Tag<T>(), buffer);
}
template <typename T>
HWY_ATTR HWY_INLINE void store_rest(hn::Vec<Tag<T>> values, T* x, int64_t count) {
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(T)] = {};
  hn::Store(values, Tag<T>(), buffer);
  std::memcpy(x, buffer, static_cast<size_t>(count) * sizeof(T));
}

// y[i] (+)= function(x[i]...), vector by vector. `function` takes and gives vectors.
template <typename T, typename Function, typename... Inputs>
HWY_ATTR HWY_INLINE void transform(int64_t n, bool add, T* y, const Function& function, const Inputs*... x) {
  const Tag<T> d;
  int64_t i = 0;
  if (add) {
    for (; i + lanes<T>() <= n; i += lanes<T>()) {
      hn::StoreU(hn::Add(hn::LoadU(d, y + i), function(hn::LoadU(d, x + i)...)), d, y + i);
    }
  } else {
    for (; i + lanes<T>() <= n; i += lanes<T>()) hn::StoreU(function(hn::LoadU(d, x + i)...), d, y + i);
  }
  if (i == n) return;
  auto rest = function(load_rest(x + i, n - i)...);
  if (add) rest = hn::Add(load_rest(y + i, n - i), rest);
  store_rest(rest, y + i, n - i);
}

// y += x.
template <typename T>
HWY_ATTR void AddTo(const T* x, int64_t n, T* y) {
  transform(
      n, true, y, [](auto v) HWY_ATTR { return v; }, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#endif

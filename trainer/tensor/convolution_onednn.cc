#include "millrace/trainer/tensor/convolution_onednn.h"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <type_traits>

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/onednn_call.h"

namespace millrace {
namespace {

using Memory = dnnl::memory;

enum class Part { kOutput, kInputGradient, kKernelGradient };

// Kept until more sizes than this have been seen; then all begin anew. Code for one of them is some 10 KiB.
constexpr size_t kMostCompiled = 512;

// Never destroyed: threads may still convolve while the process exits.
const dnnl::engine& engine() {
  static const auto& only = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return only;
}

Memory memory(const Memory::desc& format, const void* values) {
  return {format, engine(), const_cast<void*>(values)};  // NOLINT(cppcoreguidelines-pro-type-const-cast): its API
}

/// A part of a convolution, compiled for its sizes. Images lie as ours do; kernels in whatever format is best for the
/// processor, from and to which they are reordered.
struct Compiled {
  dnnl::primitive run = {};  // empty: oneDNN has only its reference
  Memory::desc input = {};
  Memory::desc output = {};
  Memory::desc kernel = {};      // ours
  Memory::desc run_kernel = {};  // of `run`
  dnnl::reorder reorder = {};    // from ours to that of `run`, or back for a gradient; empty: they are the same
  Memory::desc scratch = {};
  Memory::desc reorder_scratch = {};
};

struct Formats {
  Memory::desc input, output, kernel, any_kernel;
  Memory::dims strides, before, after;
};

Formats formats_of(const Convolution& sizes) {
  const SamePatches& patches = sizes.patches;
  const auto f32 = Memory::data_type::f32;
  Memory::dims kernel = {sizes.out, patches.channels, patches.kernel_height, patches.kernel_width};
  auto ours = Memory::format_tag::hwio;
  if (sizes.depthwise) {
    kernel = {sizes.out, 1, 1, patches.kernel_height, patches.kernel_width};
    ours = Memory::format_tag::hwigo;
  }
  return {.input = {{sizes.images, patches.channels, patches.height, patches.width}, f32, Memory::format_tag::nhwc},
          .output = {{sizes.images, sizes.out, patches.output_height(), patches.output_width()},
                     f32,
                     Memory::format_tag::nhwc},
          .kernel = {kernel, f32, ours},
          .any_kernel = {kernel, f32, Memory::format_tag::any},
          .strides = {patches.stride, patches.stride},
          .before = {patches.top(), patches.left()},
          .after = {patches.padding_height() - patches.top(), patches.padding_width() - patches.left()}};
}

template <typename Primitive, typename Description>
void take(Compiled& into, const Description& description, const Memory::desc& kernel) {
  if (std::string_view(description.impl_info_str()).starts_with("ref")) return;
  into.run_kernel = kernel;
  into.scratch = description.scratchpad_desc();
  into.run = Primitive(description);
}

Compiled compile(const Convolution& sizes, Part part) {
  const Formats formats = formats_of(sizes);
  const auto& [input, output, kernel, any_kernel, strides, before, after] = formats;
  Compiled compiled{.input = input, .output = output, .kernel = kernel};
  const auto direct = dnnl::algorithm::convolution_direct;
  dnnl::primitive_attr own_scratch;  // lent by the caller: one primitive is run by several threads at once
  own_scratch.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::convolution_forward::desc forward(dnnl::prop_kind::forward_training, direct, input, any_kernel, output,
                                                strides, before, after);
  const dnnl::convolution_forward::primitive_desc hint(forward, own_scratch, engine(), true);
  if (!hint) return compiled;
  if (part == Part::kOutput) {
    take<dnnl::convolution_forward>(compiled, hint, hint.weights_desc());
  } else if (part == Part::kInputGradient) {
    const dnnl::convolution_backward_data::desc wanted(direct, input, any_kernel, output, strides, before, after);
    const dnnl::convolution_backward_data::primitive_desc found(wanted, own_scratch, engine(), hint, true);
    if (found) take<dnnl::convolution_backward_data>(compiled, found, found.weights_desc());
  } else {
    const dnnl::convolution_backward_weights::desc wanted(direct, input, any_kernel, output, strides, before, after);
    const dnnl::convolution_backward_weights::primitive_desc found(wanted, own_scratch, engine(), hint, true);
    if (found) take<dnnl::convolution_backward_weights>(compiled, found, found.diff_weights_desc());
  }
  if (compiled.run && compiled.run_kernel != kernel) {
    const bool back = part == Part::kKernelGradient;
    const auto& from = back ? compiled.run_kernel : kernel;
    const auto& to = back ? kernel : compiled.run_kernel;
    const dnnl::reorder::primitive_desc reorder(engine(), from, engine(), to, own_scratch);
    compiled.reorder = dnnl::reorder(reorder);
    compiled.reorder_scratch = reorder.scratchpad_desc();
  }
  return compiled;
}

std::shared_ptr<const Compiled> compiled_for(const Convolution& sizes, Part part) {
  const SamePatches& patches = sizes.patches;
  const std::tuple key(part, sizes.images, patches.height, patches.width, patches.channels, sizes.out,
                       patches.kernel_height, patches.kernel_width, patches.stride, sizes.depthwise);
  static auto& mutex = *new std::mutex;  // as the engine
  static auto& all = *new std::map<std::remove_const_t<decltype(key)>, std::shared_ptr<const Compiled>>;
  const std::lock_guard lock(mutex);
  if (const auto found = all.find(key); found != all.end()) return found->second;
  if (all.size() >= kMostCompiled) all.clear();
  return all[key] = std::make_shared<const Compiled>(compile(sizes, part));
}

/// Memory of an arena for the length of a call.
template <typename T>
class Lent {
 public:
  Lent(Arena& arena, int64_t count) : arena_(arena), count_(count), values_(arena.allocate<T>(count)) {}
  ~Lent() { arena_.release(values_, count_); }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  T* get() const { return values_; }

 private:
  Arena& arena_;
  int64_t count_;
  T* values_;
};

/// One call of a part: false where oneDNN has only its reference. `x` and `y`: the images of input and output, their
/// values or gradients. What the part makes is written.
bool run(const Convolution& sizes, Part part, const float* x, const float* kernel, const float* y, Arena& arena) try {
  const OnednnCall call;
  const std::shared_ptr<const Compiled> compiled = compiled_for(sizes, part);
  if (!compiled->run) return false;
  dnnl::stream stream(engine());
  const Memory ours = memory(compiled->kernel, kernel);
  std::optional<Lent<std::byte>> other_kernel;
  if (compiled->reorder) other_kernel.emplace(arena, static_cast<int64_t>(compiled->run_kernel.get_size()));
  const Memory theirs = other_kernel ? memory(compiled->run_kernel, other_kernel->get()) : ours;
  const auto reorder = [&](const Memory& from, const Memory& to) {
    if (!other_kernel) return;
    const Lent<std::byte> of_reorder(arena, static_cast<int64_t>(compiled->reorder_scratch.get_size()));
    compiled->reorder.execute(stream, {{DNNL_ARG_FROM, from},
                                       {DNNL_ARG_TO, to},
                                       {DNNL_ARG_SCRATCHPAD, memory(compiled->reorder_scratch, of_reorder.get())}});
  };
  const Lent<std::byte> scratch(arena, static_cast<int64_t>(compiled->scratch.get_size()));
  const bool gives_kernel = part == Part::kKernelGradient;
  if (!gives_kernel) reorder(ours, theirs);
  compiled->run.execute(stream,
                        {{part == Part::kInputGradient ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, memory(compiled->input, x)},
                         {gives_kernel ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, theirs},
                         {part == Part::kOutput ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, memory(compiled->output, y)},
                         {DNNL_ARG_SCRATCHPAD, memory(compiled->scratch, scratch.get())}});
  if (gives_kernel) reorder(theirs, ours);
  stream.wait();
  return true;
} catch (const dnnl::error& error) {
  throw std::runtime_error(fmt::format("oneDNN refused a convolution: {}", error.what()));
}

/// Has `write` write `count` values into `into`, or into other memory from which they are added.
template <typename Write>
bool write_or_add(bool add, int64_t count, float* into, Arena& arena, const Write& write) {
  if (!add) return write(into);
  const Lent<float> values(arena, count);
  if (!write(values.get())) return false;
  kernels<float>().add(values.get(), count, into);
  return true;
}

}  // namespace

bool convolve_onednn(const Convolution& sizes, const float* x, const float* kernel, float* y, Arena& arena) {
  return run(sizes, Part::kOutput, x, kernel, y, arena);
}

bool input_gradient_onednn(const Convolution& sizes, const float* dy, const float* kernel, bool add, float* dx,
                           Arena& arena) {
  return write_or_add(add, sizes.input_count(), dx, arena,
                      [&](float* to) { return run(sizes, Part::kInputGradient, to, kernel, dy, arena); });
}

bool kernel_gradient_onednn(const Convolution& sizes, const float* x, const float* dy, bool add, float* dkernel,
                            Arena& arena) {
  return write_or_add(add, sizes.kernel_count(), dkernel, arena,
                      [&](float* to) { return run(sizes, Part::kKernelGradient, x, to, dy, arena); });
}

}  // namespace millrace

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "millrace/ops/arguments.h"
#include "millrace/ops/batch/batching.h"

namespace millrace {

struct WindowOptions {
  /// Elements from the start of a window to that of the next. Default: none, as many as its size
  std::optional<int64_t> shift = std::nullopt;
  int64_t stride = 1;  ///< elements from one of a window to the next. Default: 1, neighbours

  static constexpr auto fields() {
    using A = WindowOptions;
    return describe<A>("WindowOptions", field::stream<&A::shift>, field::stream<&A::stride>);
  }
};

/// Windows over the elements: the first starts at the first element, the next `shift` further, and so on; each takes
/// `size` elements, `stride` apart, and becomes a batch. Windows may overlap, or leave elements out. At the end come
/// shorter ones as long as they have an element, or none with `drop_remainder`. tf.data: `window`, and `flat_map` with
/// a function that batches.
///
///     range(5), window(3, {.shift = 1})                                          // [0,1,2] [1,2,3] [2,3,4] [3,4] [4]
///     range(7), window(2, {.shift = 3, .stride = 2}, BatchOptions{.drop_remainder = true})   // [0,2] [3,5]
///
/// A window that takes an error element is that error. Errors that no window takes, or one that is dropped for not
/// being complete, go out nevertheless, as do notes of what a source left out; only those of functions of the user, of
/// shapes that do not fit (`wrong_shape`) and of values that an operator has no use for (`out_of_range`) go with their
/// elements, as in tf.data. State: where the next window starts in the input, and how many notes and errors after that
/// are gone.
class WindowOperator final : public StageOperator {
 public:
  WindowOperator(const SchemaPtr& input, int64_t size, WindowOptions options = {},
                 const BatchingOptions& batches = BatchOptions{});
  std::string_view name() const override { return "window"; }
  OperatorTraits traits() const override {
    return {.is_nonblocking = true, .checkpoint_blocker = "", .pads = batching_.pads()};
  }
  /// As in tf.data unknown.
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  /// One batch.
  int64_t memory_needed(std::span<const Cardinality> inputs) const override {
    return batch_bytes(*schema(), static_cast<size_t>(size_), batching_.drop_remainder(), inputs[0]);
  }

 private:
  WindowOperator(SchemaPtr input, int64_t size, WindowOptions options, Batching batching);

  SchemaPtr input_schema_;
  int64_t size_;
  WindowOptions options_;
  Batching batching_;
};

/// What `Dataset::window` is called with.
struct WindowArguments {
  int64_t size = 0;
  WindowOptions options = {};
  BatchingOptions batches = {};

  static constexpr auto fields() {
    using A = WindowArguments;
    return describe<A>("window", field::required<&A::size>, field::inlined<&A::options>, field::stream<&A::batches>);
  }
};

}  // namespace millrace

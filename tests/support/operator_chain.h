#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/formats/records/skipped_region.h"
#include "millrace/ops/operator.h"

namespace millrace::test {

// The value of one feature of one element, nested as its shape says: `[[1,2],[3,4]]`.
template <typename T>
std::string print_values(std::span<const T> values, std::span<const int64_t> shape) {
  if (shape.empty()) return fmt::format("{}", values[0]);
  const size_t stride = shape[0] == 0 ? 0 : values.size() / static_cast<size_t>(shape[0]);
  std::string text = "[";
  for (int64_t i = 0; i < shape[0]; ++i) {
    if (i > 0) text += ',';
    text += print_values(values.subspan(static_cast<size_t>(i) * stride, stride), shape.subspan(1));
  }
  return text + "]";
}

template <typename T>
std::string print_values(const Column& column, size_t element) {
  if (!column.is_ragged()) return print_values(column.values<T>(element), column.shape(element));
  // Row by row.
  BufferPool pool;
  const Column rows = column.ungrouped(element, 1, pool);
  std::string text = "[";
  for (size_t row = 0; row < rows.num_elements(); ++row) {
    if (row > 0) text += ',';
    text += print_values<T>(rows, row);
  }
  return text + "]";
}

inline std::string print_value(const Column& column, size_t element) {
  return visit_dtype(column.dtype(), [&]<typename T>() { return print_values<T>(column, element); });
}

// One element as text: `x=1 tokens=[1,2]`, or `error: user_function: …`.
inline std::string print_element(const Block& block, size_t element) {
  if (const auto error = block.error_at(element)) return "error: " + error->to_string();
  std::string text;
  for (size_t c = 0; c < block.columns().size(); ++c) {
    if (c > 0) text += ' ';
    text += (*block.schema())[c].name + '=' + print_value(block.column(c), element);
  }
  return text;
}

// What a whole run gave. `epochs` and `rows` run beside `elements`.
struct Stream {
  std::vector<std::string> elements;
  std::vector<int64_t> epochs;
  std::vector<int64_t> rows;  // rows of each element
};

// Small reproducible numbers for places where blocks are cut.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t limit) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state_ >> 33) % limit;
  }

 private:
  uint64_t state_;
};

struct CountingWaker final : Waker {
  void wake() noexcept override { ++wakes; }
  int wakes = 0;
};

// Cuts what a stage gives at random places and answers kPending between.
class JitterStage final : public Stage {
 public:
  JitterStage(std::unique_ptr<Stage> stage, uint64_t seed, Waker& waker)
      : stage_(std::move(stage)), dice_(seed), waker_(waker) {}

  Poll next(Block& out) override {
    if (dice_.below(3) == 0) {
      waker_.wake();
      return Poll::kPending;
    }
    if (taken_ == block_.num_elements()) {
      taken_ = 0;
      block_ = Block();
      const Poll poll = stage_->next(block_);
      if (poll != Poll::kBlock) return poll;
    }
    const size_t left = block_.num_elements() - taken_;
    const size_t count = std::min(left, dice_.below(4) == 0 ? left : 1 + dice_.below(5));
    out = block_.slice(taken_, count);
    taken_ += count;
    return Poll::kBlock;
  }

 private:
  std::unique_ptr<Stage> stage_;
  Dice dice_;
  Waker& waker_;
  Block block_;
  size_t taken_ = 0;
};

// A map as a stage, and the numbering of blocks that a segment does.
class MapStage final : public Stage {
 public:
  MapStage(std::unique_ptr<Stage> input, const MapOperator& map, const StageContext& context)
      : input_(std::move(input)), map_(map), context_(context) {}

  Poll next(Block& out) override {
    while (true) {
      Block block;
      const Poll poll = input_->next(block);
      if (poll != Poll::kBlock) return poll;
      block.first_row = rows_;
      block.iteration = context_.iteration;
      rows_ += block.num_rows();
      out = map_.apply(std::move(block), context_.pool);
      if (out.num_elements() > 0) return Poll::kBlock;
    }
  }

 private:
  std::unique_ptr<Stage> input_;
  const MapOperator& map_;
  StageContext context_;
  int64_t rows_ = 0;
};

// Operators joined to a tree and run in place.
//
//     Chain chain = Chain::of(range).then(take);
//     EXPECT_THAT(chain.elements(), ElementsAre("x=0", "x=1"));
//
// With a jitter seed, everything between two operators is cut at random and answers kPending at random.
class Chain {
 public:
  static Chain of(std::shared_ptr<const Operator> op, std::vector<Chain> inputs = {}) {
    Chain chain;
    chain.op_ = std::move(op);
    chain.inputs_ = std::move(inputs);
    return chain;
  }
  template <typename Op, typename... Args>
  static Chain source(Args&&... args) {
    return of(std::make_shared<Op>(std::forward<Args>(args)...));
  }
  // After several chains, an operator made of (schemas of the chains, args…).
  template <typename Op, typename... Args>
  static Chain join(std::vector<Chain> inputs, Args&&... args) {
    std::vector<SchemaPtr> schemas;
    for (const Chain& input : inputs) schemas.push_back(input.schema());
    return of(std::make_shared<Op>(std::span<const SchemaPtr>(schemas), std::forward<Args>(args)...),
              std::move(inputs));
  }
  // After this chain, an operator made of (schema of this chain, args…).
  template <typename Op, typename... Args>
  Chain then(Args&&... args) const {
    return of(std::make_shared<Op>(schema(), std::forward<Args>(args)...), {*this});
  }

  const SchemaPtr& schema() const { return op_->schema(); }
  const Operator& op() const { return *op_; }
  Cardinality cardinality() const {
    std::vector<Cardinality> inputs;
    for (const Chain& input : inputs_) inputs.push_back(input.cardinality());
    return op_->cardinality(inputs);
  }

  OpenStage opener(uint64_t jitter) const {
    std::vector<OpenStage> inputs;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      inputs.push_back(inputs_[i].opener(jitter == 0 ? 0 : jitter * 31 + i));
    }
    const auto* stage_operator = dynamic_cast<const StageOperator*>(op_.get());
    const auto shared = stage_operator == nullptr ? nullptr : stage_operator->share();
    return [chain = *this, inputs, shared, jitter](const StageContext& context) -> std::unique_ptr<Stage> {
      std::unique_ptr<Stage> stage;
      if (const auto* map = dynamic_cast<const MapOperator*>(chain.op_.get())) {
        stage = std::make_unique<MapStage>(inputs[0](context_for(*map, context)), *map, context);
      } else {
        StageContext inner = context;
        inner.shared = shared;
        const auto& op = dynamic_cast<const StageOperator&>(*chain.op_);
        stage = op.open(inputs, context_for(op, inner));
      }
      if (jitter != 0) stage = std::make_unique<JitterStage>(std::move(stage), jitter, context.waker);
      return stage;
    };
  }

  // Everything, or the first `limit` elements; then the stages are destroyed.
  Stream run(uint64_t jitter = 0, size_t limit = SIZE_MAX, Iteration iteration = {}) const {
    BufferPool pool;
    CountingWaker waker;
    InlineLanes lanes;
    Stream stream;
    std::vector<Block> kept;  // blocks live longer than the stages
    {
      const std::unique_ptr<Stage> stage = opener(jitter)({pool, waker, iteration, lanes});
      while (stream.elements.size() < limit) {
        Block block;
        const int wakes = waker.wakes;
        const Poll poll = stage->next(block);
        if (poll == Poll::kEnd) {
          if (stage->next(block) == Poll::kBlock) stream.elements.push_back("element after the end");
          break;
        }
        if (poll == Poll::kPending) {
          if (waker.wakes == wakes && jitter == 0) stream.elements.push_back("pending without a cause");
          continue;
        }
        if (block.num_elements() == 0) stream.elements.push_back("empty block");
        for (size_t i = 0; i < block.num_elements() && stream.elements.size() < limit; ++i) {
          stream.elements.push_back(print_element(block, i));
          stream.epochs.push_back(block.epoch);
          stream.rows.push_back(block.rows_per_element);
        }
        if (kept.size() < 8) kept.push_back(block);
      }
    }
    return stream;
  }
  // The elements without jitter; what 8 jittered runs give must be the same, epochs and rows too.
  std::vector<std::string> elements() const {
    const Stream expected = run();
    for (uint64_t jitter = 1; jitter <= 8; ++jitter) {
      const Stream stream = run(jitter);
      if (stream.elements != expected.elements) return with_note("jitter changed the elements", jitter, stream);
      if (stream.epochs != expected.epochs) return with_note("jitter changed the epochs", jitter, stream);
      if (stream.rows != expected.rows) return with_note("jitter changed the rows per element", jitter, stream);
    }
    return expected.elements;
  }

 private:
  static std::vector<std::string> with_note(const std::string& note, uint64_t jitter, const Stream& stream) {
    std::vector<std::string> elements{fmt::format("{} (seed {})", note, jitter)};
    elements.insert(elements.end(), stream.elements.begin(), stream.elements.end());
    return elements;
  }

  std::shared_ptr<const Operator> op_;
  std::vector<Chain> inputs_;
};

// The elements of a chain in one line; values of the feature without its name.
inline std::string joined(const Chain& chain, const std::string& feature) {
  std::string text;
  for (const std::string& element : chain.elements()) {
    if (!text.empty()) text += ' ';
    text += element.starts_with(feature + "=") ? element.substr(feature.size() + 1) : element;
  }
  return text;
}

// A source of int64 scalars in which chosen values are errors, or notes of what was left out.
class FaultyRange final : public StageOperator {
 public:
  explicit FaultyRange(int64_t count, std::vector<int64_t> faults = {}, std::vector<int64_t> notes = {},
                       std::string feature = "x")
      : StageOperator(std::make_shared<const Schema>(
            std::vector<FeatureSpec>{{.name = std::move(feature), .dtype = DType::kInt64, .shape = {}}})),
        count_(count),
        faults_(std::move(faults)),
        notes_(std::move(notes)) {}
  std::string_view name() const override { return "faulty_range"; }
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::known(count_); }
  // Everything is in one block that is made again: its place is the beginning.
  OperatorTraits traits() const override { return {.checkpoint_blocker = ""}; }
  std::unique_ptr<Stage> open(std::vector<OpenStage>, const StageContext& context) const override {
    class Run final : public Stage {
     public:
      Run(const FaultyRange& range, const StageContext& context) : range_(range), context_(context) {}
      Poll next(Block& out) override {
        if (done_ || range_.count_ == 0) return Poll::kEnd;
        done_ = true;
        BlockBuilder builder(range_.schema(), context_.pool);
        for (int64_t value = 0; value < range_.count_; ++value) {
          if (contains(range_.notes_, value)) {
            builder.append_error(std::make_shared<const Error>(Error{.code = ErrorCode::kParse,
                                                                     .message = fmt::format("note at {}", value),
                                                                     .skipped = std::make_shared<SkippedRegion>()}));
          } else if (!contains(range_.faults_, value)) {
            builder.column(0).append<int64_t>({&value, 1}, {});
            builder.added_elements(1);
          } else {
            builder.append_error(std::make_shared<const Error>(
                Error{.code = ErrorCode::kParse, .message = fmt::format("at {}", value)}));
          }
        }
        out = builder.finish();
        out.epoch = context_.iteration.epoch;
        return Poll::kBlock;
      }

     private:
      static bool contains(const std::vector<int64_t>& values, int64_t value) {
        return std::find(values.begin(), values.end(), value) != values.end();
      }

      const FaultyRange& range_;
      StageContext context_;
      bool done_ = false;
    };
    return std::make_unique<Run>(*this, context);
  }

 private:
  int64_t count_;
  std::vector<int64_t> faults_;
  std::vector<int64_t> notes_;
};

}  // namespace millrace::test

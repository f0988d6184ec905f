#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/block.h"
#include "millrace/formats/records/shards.h"
#include "millrace/formats/storage/blocking_result.h"
#include "millrace/ops/operator_traits.h"
#include "millrace/ops/stage.h"

namespace millrace {

/// How many elements a dataset has.
class Cardinality {
 public:
  static Cardinality known(int64_t count) { return Cardinality(count); }
  static Cardinality infinite() { return Cardinality(kInfinite); }
  static Cardinality unknown() { return Cardinality(kUnknown); }
  bool is_known() const { return value_ >= 0; }
  bool is_infinite() const { return value_ == kInfinite; }
  bool is_unknown() const { return value_ == kUnknown; }
  /// The count; only when `is_known()`.
  int64_t count() const { return value_; }
  std::string to_string() const { return is_known() ? std::to_string(value_) : is_infinite() ? "infinite" : "unknown"; }
  friend bool operator==(const Cardinality&, const Cardinality&) = default;

 private:
  static constexpr int64_t kInfinite = -1;
  static constexpr int64_t kUnknown = -2;
  explicit Cardinality(int64_t value) : value_(value) {}
  int64_t value_;
};

class MapOperator;

/// Rows that pass an operator as bytes, since a rewrite makes their values after it.
struct DeferredRows {
  SchemaPtr schema = {};                          ///< of the bytes
  std::shared_ptr<const MapOperator> parse = {};  ///< what makes the values; null: `DecodeRowsOperator`
  int64_t row_bytes = 0;                          ///< that the values of a row take; 0: not known
};

/// The immutable description of one operator of a dataset. Its constructor checks the arguments and throws
/// `kInvalidArgument` naming parameter, limit and value. Thread safe. Derive from `StageOperator` or `MapOperator`.
class Operator {
 public:
  explicit Operator(SchemaPtr schema) : schema_(std::move(schema)) {}
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  virtual ~Operator() = default;

  /// The builder's name: `shuffle`.
  virtual std::string_view name() const = 0;
  /// Of an operator of yours (`Dataset::from_operator`): what decides its stream, as `explain()` prints it and states
  /// are compared by: `buffer_size=16384, seed=42`. Methods of Dataset have descriptions for that (ops/arguments.h).
  virtual std::string arguments() const { return ""; }
  /// What a rewrite made of it, as `explain()` prints it: `as bytes`.
  virtual std::string remark() const { return ""; }
  /// The features of the elements that come out.
  const SchemaPtr& schema() const { return schema_; }
  virtual Cardinality cardinality(std::span<const Cardinality> inputs) const = 0;
  /// The same of inputs' certain ones, for whoever decides by it: unknown where tf.data, which `cardinality` follows,
  /// says more than is certain. Default: `cardinality`.
  virtual Cardinality certain_cardinality(std::span<const Cardinality> inputs) const { return cardinality(inputs); }

  /// The files that it reads, or null.
  virtual const Shards* shards() const { return nullptr; }
  /// A digest of what it gives that neither its arguments nor `shards()` say (rows from memory), or 0.
  virtual uint64_t content_digest() const { return 0; }
  /// Bytes that it holds at a time, as far as they follow from the numbers of elements that its inputs are certain to
  /// have; 0: nothing is known.
  virtual int64_t memory_needed(std::span<const Cardinality> /*inputs*/) const { return 0; }
  /// What it promises. Default: nothing.
  virtual OperatorTraits traits() const { return {}; }
  /// The same operator where its rows come as bytes and are parsed later, or by it (`OperatorTraits::defer_parse`).
  /// Null, the default: what made it makes that too, with the schema of the bytes.
  virtual std::shared_ptr<const Operator> of_deferred_rows(const DeferredRows& /*rows*/) const { return nullptr; }
  /// The same operator on top of `input`, giving each of its elements as the one `bytes` value `row`
  /// (`PackedRowCodec`), of which `DecodeRowsOperator` makes the element. Null, the default: it cannot.
  virtual std::shared_ptr<const Operator> giving_bytes(const SchemaPtr& /*input*/) const { return nullptr; }

 private:
  SchemaPtr schema_;
};

/// Leaves out of the context of a run what this operator, or a map after it, cannot take.
inline void limit_context(const Operator& op, StageContext& context) {
  if (!op.traits().forwards_row_views) context.row_store = nullptr;
}
/// The context of a run of this operator.
[[nodiscard]] inline StageContext context_for(const Operator& op, StageContext context) {
  limit_context(op, context);
  return context;
}

/// What an operator works with before any run.
struct Preparation {
  Storage& storage;
  int64_t most_bytes = INT64_MAX;  ///< that may be kept for all runs
  StorageWait wait = {};           ///< for the storage
};

/// An operator with state from row to row. It runs as a poll stage in the serial chain of a segment, so a row must cost
/// no more than some tens of nanoseconds.
class StageOperator : public Operator {
 public:
  using Operator::Operator;
  /// A fresh run in `context.iteration`. `inputs[i]` opens input i; an operator may open it again (a repeat) or late.
  [[nodiscard]] virtual std::unique_ptr<Stage> open(std::vector<OpenStage> inputs,
                                                    const StageContext& context) const = 0;
  /// What its runs in one pipeline share: asked for once, for each place in a plan. Default: nothing.
  [[nodiscard]] virtual std::shared_ptr<SharedByRuns> share() const { return nullptr; }
  /// Called once when a pipeline starts, before any run, with what `share()` made; may wait for the storage. Throws
  /// what would be in the way of every run. Gives the bytes that are kept for all of them, beside buffers, and are
  /// taken off the memory budget. An operator of a dataset that is nested in a function is never prepared. Default:
  /// nothing.
  virtual int64_t prepare(SharedByRuns* /*shared*/, const Preparation& /*with*/) const { return 0; }
  /// Nested inputs that run at the same time. Default: 0, no lanes.
  virtual size_t num_lanes() const { return 0; }
  /// Whether what runs in the lanes are its inputs; otherwise it is what the operator makes of their elements. Default:
  /// its inputs.
  virtual bool lanes_run_inputs() const { return true; }
  /// What runs in lanes that do not run its inputs, as statistics name it. Default: `nested`
  virtual std::string_view work_in_lanes() const { return "nested"; }
  /// Whether several inputs are asked in turn, so that each must have elements ready while others are waited for. Each
  /// then runs in a segment of its own. Default: no, an input runs in the chain of the operator.
  virtual bool inputs_run_ahead() const { return false; }
  /// Whether its stages make use of `StageContext::assembles_later`: what they do for whole blocks then runs in
  /// parallel where no other stage follows in the chain. Default: no.
  virtual bool assembles_later() const { return false; }
};

/// An operator without state from row to row: blocks pass in parallel, in any order, and are put in order after it.
class MapOperator : public Operator {
 public:
  using Operator::Operator;
  /// The block after the operator. Error elements pass on untouched. What it throws becomes an error of every element.
  virtual Block apply(Block block, BufferPool& pool) const = 0;
  /// Whether every element that comes in goes out again, in its place. Default: yes.
  virtual bool one_to_one() const { return true; }
  /// For what parses values (`OperatorTraits::parses`): one operator of `input` that does what `run` does, one after
  /// the other, of which this is the last; null where it cannot. Default: null.
  [[nodiscard]] virtual std::shared_ptr<const MapOperator> fused(
      std::span<const std::shared_ptr<const MapOperator>> /*run*/, const SchemaPtr& /*input*/) const {
    return nullptr;
  }
  /// One element.
  int64_t memory_needed(std::span<const Cardinality> /*inputs*/) const override { return least_bytes(*schema()); }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override {
    return one_to_one() ? inputs[0] : inputs[0].is_infinite() ? Cardinality::infinite() : Cardinality::unknown();
  }
};

}  // namespace millrace

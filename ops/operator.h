#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/columnar/block.h"
#include "formats/storage/answer.h"
#include "formats/tfrecord/shards.h"
#include "ops/stage.h"

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
  /// Bytes that it is known to need before it reads anything, in all; 0: nothing is known. What it holds at a time.
  virtual int64_t memory_needed() const { return 0; }
  /// Whether it hands on what a source has put into a `StageContext::row_store`, or is such a source: each row at most
  /// once, in its input's order, as the same views, and none is read after it was handed on. A stage that keeps rows
  /// long, such as a shuffle, then need not copy them itself. Default: no, its inputs put nothing there.
  virtual bool hands_on_rows() const { return false; }
  /// Why a pipeline with this operator cannot be saved; empty when it can.
  virtual std::string unsavable() const { return ""; }
  /// Whether its work calls no function of a user, nor waits for anything: such as a lock that the caller of `next()`
  /// holds, who may do this work while it waits. Default: no.
  virtual bool never_waits() const { return false; }

 private:
  SchemaPtr schema_;
};

/// The context of a run of this operator, or of the input of a map.
[[nodiscard]] inline StageContext context_for(const Operator& op, StageContext context) {
  if (!op.hands_on_rows()) context.row_store = nullptr;
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
  /// Whether its stages do no more than move rows on: they call no function of a user, and compute nothing for long.
  /// Who waits for blocks may then be woken for those of some calls at a time. Default: no.
  virtual bool only_moves_rows() const { return false; }
  /// Empty for an operator whose stages give states with their blocks and go on from them (`StageContext::state`).
  std::string unsavable() const override { return "its stages have no states"; }
};

/// An operator without state from row to row: blocks pass in parallel, in any order, and are put in order behind it.
class MapOperator : public Operator {
 public:
  using Operator::Operator;
  /// The block after the operator. Error elements pass on untouched. What it throws becomes an error of every element.
  virtual Block apply(Block block, BufferPool& pool) const = 0;
  /// Whether every element that comes in goes out again, in its place. Default: yes.
  virtual bool one_to_one() const { return true; }
  /// Whether what it makes of a row depends on the row's number (`Block::first_row`). Where it does not, and it is one
  /// to one, states of pipelines say nothing of its place, so that a rewrite may move it. Default: yes.
  virtual bool uses_row_numbers() const { return true; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override {
    return one_to_one() ? inputs[0] : inputs[0].is_infinite() ? Cardinality::infinite() : Cardinality::unknown();
  }
};

}  // namespace millrace

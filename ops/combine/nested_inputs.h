#pragma once

#include <optional>
#include <vector>

#include "millrace/formats/columnar/block.h"
#include "millrace/ops/stage.h"

namespace millrace {

/// One of the inputs of an interleave, or an error where there would be one.
struct NestedInput {
  OpenStage open = {};  ///< null: there is an error
  Block error = {};     ///< then one element, which is an error or the note of what was left out
  Cursor place = {};    ///< where it is, see `NestedInputs::place`
};

/// The inputs of an interleave, in the order in which they are opened.
class NestedInputs {
 public:
  NestedInputs() = default;
  NestedInputs(const NestedInputs&) = delete;
  NestedInputs& operator=(const NestedInputs&) = delete;
  virtual ~NestedInputs() = default;
  /// `kBlock`: `out` is the next input. `kEnd`: there are no more. `kPending`: as for a stage.
  virtual Poll next(NestedInput& out) = 0;
  /// Where `seek` finds the input that is next; nothing where its number says it.
  virtual std::optional<Cursor> place() const = 0;
  /// `next` goes on with the input of this number, counted from 0, whose place this is; for inputs that were given
  /// before. Throws `kState` when there is no such input.
  virtual void seek(uint64_t number, const Cursor& place) = 0;
};

/// Inputs that are known from the start.
class ListedInputs final : public NestedInputs {
 public:
  explicit ListedInputs(std::vector<OpenStage> inputs) : inputs_(std::move(inputs)) {}
  Poll next(NestedInput& out) override;
  std::optional<Cursor> place() const override { return std::nullopt; }
  void seek(uint64_t number, const Cursor& place) override;

 private:
  std::vector<OpenStage> inputs_;
  size_t next_ = 0;
};

}  // namespace millrace

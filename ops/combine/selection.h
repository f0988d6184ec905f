#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/ops/block_reader.h"
#include "millrace/ops/joined_schema.h"

namespace millrace {

/// Says which input gives the next element.
class InputSelector {
 public:
  /// One input, or an error that takes the place of an element.
  struct Choice {
    size_t input = 0;
    size_t count = 1;                              ///< how often it comes one after the other, at least
    std::shared_ptr<const Error> error = nullptr;  ///< not null: no input, but this
    int64_t rows = 1;                              ///< that the error stands for
  };

  virtual ~InputSelector() = default;
  /// `kBlock`: `out` is the next choice; asked again it is the same until it is taken. `kEnd`: there are no more.
  /// `kPending`: as for a stage.
  virtual Poll peek(Choice& out) = 0;
  /// Goes past `count` choices, no more than `peek` has said.
  virtual void take(size_t count) = 0;
  /// The input of this number has no more elements; the choice that has found it is taken.
  virtual void ended(size_t input) = 0;
  /// Of the next choice: what a selector is made from to go on there.
  virtual Cursor place() const = 0;
};

/// Takes each element from the input that a selector names. All inputs are open from the start. An input is found to
/// have ended when it is asked; then the stream ends or, without `stop_on_empty`, such choices are passed over until no
/// input has elements; 2^28 of them one after the other are an error. A choice is used up by an element or an error,
/// not by a note. Runs of one input that make a whole block pass as they are.
///
/// Input i runs in the iteration `nested(i)`; rows get the epoch of the whole.
class SelectionStage final : public Stage {
 public:
  /// `open_selector` opens it at a place. `inputs`: an empty function is an input that is never chosen.
  SelectionStage(std::string_view kind, const JoinedSchema& schema, std::vector<OpenStage> inputs,
                 const std::function<std::unique_ptr<InputSelector>(const StageContext&)>& open_selector,
                 bool stop_on_empty, const StageContext& context);
  Poll next(Block& out) override;

 private:
  Cursor place() const;
  void note_begin();
  void input_ended(size_t input);
  Poll append_run(const InputSelector::Choice& choice, Block& out);
  void finish(Block& out);
  Poll deliver(Block& out);
  Poll deliver_or(Poll poll, Block& out) { return builder_.empty() ? poll : deliver(out); }

  std::string_view kind_;
  bool stop_on_empty_;
  StageContext context_;
  std::unique_ptr<InputSelector> selector_;
  std::vector<std::optional<BlockReader>> inputs_;  // without a value: it has ended
  size_t num_open_ = 0;
  bool ended_ = false;
  uint64_t choices_of_ended_ = 0;  // since the last element
  BlockBuilder builder_;
  int64_t rows_per_element_ = 1;  // of the elements in `builder_`
  Cursor begin_;                  // of what goes out next, once it is noted
  Cursor next_begin_;             // by the state that the block before had
  int64_t bytes_since_state_ = 0;
};

}  // namespace millrace

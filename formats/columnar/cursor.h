#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

struct StageState;
using StageStatePtr = std::shared_ptr<const StageState>;

/// A place in the stream of a stage: `skip` elements after the place where the stage had this state. A stage that is
/// opened with the state gives, from its `skip`-th element on, what the first run gave from here on.
struct Cursor {
  StageStatePtr state = {};  ///< null: the beginning of the iteration
  int64_t skip = 0;

  /// The place `elements` after this one.
  [[nodiscard]] Cursor advanced_by(int64_t elements) const { return {state, skip + elements}; }
};

/// What a stage must know to go on from a place in its stream: some numbers of its own and the places in its inputs.
/// Positions, never rows. Immutable; blocks share it.
struct StageState {
  std::string kind = {};  ///< of the stage that wrote it: `shuffle`
  std::vector<int64_t> numbers = {};
  std::vector<Cursor> inputs = {};
  std::string bytes = {};  ///< what a user's function says of itself; of most stages empty
};

[[nodiscard]] inline Cursor make_cursor(std::string_view kind, std::vector<int64_t> numbers,
                                        std::vector<Cursor> inputs = {}, std::string bytes = {}) {
  StageState state{std::string(kind), std::move(numbers), std::move(inputs), std::move(bytes)};
  return {std::make_shared<const StageState>(std::move(state)), 0};
}

}  // namespace millrace

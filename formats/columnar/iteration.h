#pragma once

#include <cstdint>

namespace millrace {

/// Which run through a nested or repeated dataset a block belongs to. With the ordinal of a row it is the counter of
/// every random choice, so that each row of each epoch of each nested input draws its own numbers.
struct Iteration {
  int64_t epoch = 0;  ///< how often the input was started before, counted over the whole stream
  uint64_t path = 0;  ///< digest of the ordinals of the nested inputs on the way here; 0 outside of nested datasets
  /// The same epoch inside the nested input of this ordinal.
  Iteration nested(uint64_t ordinal) const;
  friend bool operator==(const Iteration&, const Iteration&) = default;
};

}  // namespace millrace

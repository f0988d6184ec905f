#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/trainer/run/split.h"

namespace millrace {

/// Gives the rows (lines) of a text one after the other, then nothing. A view is read before the next call. Throws
/// ErrorException.
using RowSource = std::function<std::optional<std::string_view>()>;

/// Of `GroupOptions::rows_per_group`: a group is in memory.
inline constexpr int64_t kMostRowsPerGroup = 1'000'000'000;

struct GroupOptions {
  /// Rows whose tokens are joined before they are cut into records, up to `kMostRowsPerGroup`. Default: 1,000.
  int64_t rows_per_group = 1000;
  /// One group in this many is validation. Default: 20.
  int64_t validation_every = 20;
};

/// Rows that are cut into records together, all of one split.
struct RowGroup {
  int64_t index = 0;
  Split split = Split::kTrain;
  std::string text;          ///< the rows, one after the other
  std::vector<size_t> ends;  ///< where each row ends in `text`

  size_t size() const { return ends.size(); }
  std::string_view row(size_t i) const {
    const size_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(text).substr(begin, ends[i] - begin);
  }
};

/// Cuts a text into groups of rows, and says which are validation: every 20th group, that is the 20th, the 40th, ...
/// A text that ends before its 20th group would have no validation: then its last group is, unless it is the only one.
/// One thread at a time.
class RowGroups {
 public:
  explicit RowGroups(RowSource source, GroupOptions options = {});

  /// The next group, with all rows but for the last one; false at the end. Reuses the memory of `group`.
  bool next(RowGroup& group);

 private:
  RowSource source_;
  GroupOptions options_;
  int64_t num_groups_ = 0;
  bool started_ = false;
  std::optional<std::string> next_row_;  // read ahead, to know which group is the last
};

/// The records of a group: its ids cut into pieces of `max_length`; what is left at the end is in none.
std::vector<std::span<const int32_t>> cut_into_records(std::span<const int32_t> ids, int64_t max_length);

}  // namespace millrace

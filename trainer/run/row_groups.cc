#include "millrace/trainer/run/row_groups.h"

#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

RowGroups::RowGroups(RowSource source, GroupOptions options) : source_(std::move(source)), options_(options) {
  if (options_.rows_per_group > kMostRowsPerGroup) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("rows_per_group is {}, must be at most {}",
                                                                  options_.rows_per_group, kMostRowsPerGroup));
  }
  if (options_.rows_per_group < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("rows_per_group is {}, must be at least 1", options_.rows_per_group));
  }
  if (options_.validation_every < 2) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("validation_every is {}, must be at least 2: nothing would be left to train on",
                                     options_.validation_every));
  }
}

bool RowGroups::next(RowGroup& group) {
  const auto read_ahead = [&] {
    const std::optional<std::string_view> row = source_();
    next_row_.reset();
    if (row) next_row_.emplace(*row);
  };
  if (!std::exchange(started_, true)) read_ahead();
  group.text.clear();
  group.ends.clear();
  if (!next_row_) return false;
  group.text += *next_row_;
  group.ends.push_back(group.text.size());
  while (static_cast<int64_t>(group.size()) < options_.rows_per_group) {
    const std::optional<std::string_view> row = source_();
    if (!row) break;
    group.text += *row;
    group.ends.push_back(group.text.size());
  }
  read_ahead();
  group.index = num_groups_++;
  const bool is_last_of_few = !next_row_ && num_groups_ > 1 && num_groups_ < options_.validation_every;
  group.split = num_groups_ % options_.validation_every == 0 || is_last_of_few ? Split::kValidation : Split::kTrain;
  return true;
}

std::vector<std::span<const int32_t>> cut_into_records(std::span<const int32_t> ids, int64_t max_length) {
  std::vector<std::span<const int32_t>> records;
  const auto length = static_cast<size_t>(max_length);
  records.reserve(ids.size() / length);
  for (; ids.size() >= length; ids = ids.subspan(length)) records.push_back(ids.first(length));
  return records;
}

}  // namespace millrace

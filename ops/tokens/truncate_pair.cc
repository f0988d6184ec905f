#include "millrace/ops/tokens/truncate_pair.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/ops/tokens/cut_vectors.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw ErrorException(ErrorCode::kInvalidArgument, "truncate_pair: " + why);
}

// What is left of both lengths.
std::pair<int64_t, int64_t> truncated(int64_t first, int64_t second, int64_t most) {
  if (first + second <= most) return {first, second};
  const int64_t left = std::min(second, std::max(most / 2, most - first));
  return {most - left, left};
}

// The columns of one sequence, and its length where that is known.
std::vector<size_t> columns_of(const Schema& input, const std::vector<std::string>& names) {
  if (names.empty()) refuse("name features of both sequences; there are " + input.to_string());
  std::vector<size_t> columns;
  columns.reserve(names.size());
  for (const std::string& name : names) columns.push_back(static_cast<size_t>(input.column(name)));
  return columns;
}

int64_t known_length(const Schema& input, const std::vector<size_t>& columns) {
  int64_t length = kVaries;
  for (const size_t c : columns) {
    const FeatureSpec& feature = input[c];
    if (feature.shape.size() != 1) {
      refuse(fmt::format("feature '{}' has shape {}, needs [length]", feature.name, to_string(feature.shape)));
    }
    if (length != kVaries && feature.shape[0] != kVaries && length != feature.shape[0]) {
      refuse(
          fmt::format("feature '{}' has {} values, others of its sequence {}", feature.name, feature.shape[0], length));
    }
    length = std::max(length, feature.shape[0]);
  }
  return length;
}

SchemaPtr truncated_schema(const Schema& input, const TruncatePairOptions& options) {
  if (options.length < 1) refuse(fmt::format("length is {}, must be at least 1", options.length));
  const std::vector<size_t> first = columns_of(input, options.first);
  const std::vector<size_t> second = columns_of(input, options.second);
  std::vector<size_t> all = first;
  all.insert(all.end(), second.begin(), second.end());
  std::sort(all.begin(), all.end());
  if (const auto twice = std::adjacent_find(all.begin(), all.end()); twice != all.end()) {
    refuse(fmt::format("'{}' is named twice", input[*twice].name));
  }
  const int64_t first_length = known_length(input, first);
  const int64_t second_length = known_length(input, second);
  std::pair<int64_t, int64_t> left{kVaries, kVaries};
  if (first_length != kVaries && second_length != kVaries) {
    left = truncated(first_length, second_length, options.length);
  }
  std::vector<FeatureSpec> features = input.features();
  for (const size_t c : first) features[c].shape = {left.first};
  for (const size_t c : second) features[c].shape = {left.second};
  return std::make_shared<const Schema>(std::move(features));
}

}  // namespace

TruncatePairOperator::TruncatePairOperator(const SchemaPtr& input, TruncatePairOptions options)
    : MapOperator(truncated_schema(*input, options)),
      options_(std::move(options)),
      first_(columns_of(*input, options_.first)),
      second_(columns_of(*input, options_.second)) {}

Block TruncatePairOperator::apply(Block block, BufferPool& pool) const {
  const std::vector<int64_t> first_lengths = common_lengths(block, first_, name());
  const std::vector<int64_t> second_lengths = common_lengths(block, second_, name());
  std::vector<Kept> first;
  std::vector<Kept> second;
  bool all_fit = true;
  for (size_t i = 0; i < first_lengths.size(); ++i) {
    all_fit = all_fit && first_lengths[i] + second_lengths[i] <= options_.length;
    const auto [a, b] = truncated(first_lengths[i], second_lengths[i], options_.length);
    first.push_back({a, 0});
    second.push_back({b, 0});
  }
  Block::Columns columns = block.columns();
  const auto cut = [&](size_t c, const std::vector<Kept>& kept) {
    if (all_fit && (*schema())[c] == (*block.schema())[c]) return;
    columns[c] = cut_vectors(block, block.column(c), (*schema())[c], kept, std::nullopt, pool);
  };
  for (const size_t c : first_) cut(c, first);
  for (const size_t c : second_) cut(c, second);
  return block.with_columns(schema(), std::move(columns));
}

}  // namespace millrace

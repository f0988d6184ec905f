#include "millrace/ops/tokens/truncate.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/ops/tokens/cut_vectors.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw ErrorException(ErrorCode::kInvalidArgument, "truncate: " + why);
}

int64_t most_values(const TruncateOptions& options) {
  return options.head + options.tail + (options.marker.empty() ? 0 : 1);
}

SchemaPtr truncated_schema(const Schema& input, const TruncateOptions& options) {
  if (options.features.empty()) refuse("name the features; there are " + input.to_string());
  constexpr int64_t kMost = INT32_MAX;
  for (const auto& [what, count] : {std::pair{"head", options.head}, {"tail", options.tail}}) {
    if (count < 0 || count > kMost) refuse(fmt::format("{} is {}, must be from 0 to {}", what, count, kMost));
  }
  if (options.head + options.tail == 0) refuse("head and tail are 0, nothing would be left");
  std::vector<FeatureSpec> features = input.features();
  const FeatureSpec& first = input[static_cast<size_t>(input.column(options.features[0]))];
  for (const std::string& name : options.features) {
    if (std::count(options.features.begin(), options.features.end(), name) > 1) refuse("'" + name + "' is named twice");
    FeatureSpec& feature = features[static_cast<size_t>(input.column(name))];
    if (feature.shape.size() != 1) {
      refuse(fmt::format("feature '{}' has shape {}, needs [length]", name, to_string(feature.shape)));
    }
    if (feature.shape[0] != kVaries && first.shape[0] != kVaries && feature.shape != first.shape) {
      refuse(fmt::format("'{}' has shape {}, '{}' {}", first.name, to_string(first.shape), name,
                         to_string(feature.shape)));
    }
    if (feature.shape[0] != kVaries) feature.shape[0] = std::min(feature.shape[0], most_values(options));
  }
  return std::make_shared<const Schema>(std::move(features));
}

std::vector<std::optional<PaddingValue>> markers_of(const Schema& input, const TruncateOptions& options) {
  std::vector<std::optional<PaddingValue>> markers(options.features.size());
  if (options.marker.empty()) return markers;
  std::vector<FeatureSpec> features;
  PaddedBatchOptions values;
  for (const std::string& name : options.features) {
    features.push_back(input[static_cast<size_t>(input.column(name))]);
    const auto value = options.marker.find(name);
    if (value == options.marker.end()) refuse(fmt::format("the marker has no value for '{}'", name));
    values.features[name].value = value->second;
  }
  for (const auto& [name, value] : options.marker) {
    if (values.features.count(name) == 0) refuse(fmt::format("'{}' has a marker and is not cut", name));
  }
  // Checks that values fit, as padding does.
  const Padding padding("truncate", std::make_shared<const Schema>(std::move(features)), std::move(values));
  for (size_t f = 0; f < markers.size(); ++f) markers[f] = padding.rules()[f].value;
  return markers;
}

}  // namespace

TruncateOperator::TruncateOperator(const SchemaPtr& input, TruncateOptions options)
    : MapOperator(truncated_schema(*input, options)),
      options_(std::move(options)),
      markers_(markers_of(*input, options_)) {
  for (const std::string& name : options_.features) columns_.push_back(static_cast<size_t>(input->column(name)));
}

Block TruncateOperator::apply(Block block, BufferPool& pool) const {
  const std::vector<int64_t> lengths = common_lengths(block, columns_, name());
  const int64_t most = most_values(options_);
  std::vector<Kept> kept;
  kept.reserve(lengths.size());
  bool all_fit = true;
  for (const int64_t length : lengths) {
    all_fit = all_fit && length <= most;
    kept.push_back(length <= most ? Kept{length, 0} : Kept{options_.head, options_.tail});
  }
  Block::Columns columns = block.columns();
  for (size_t f = 0; f < columns_.size(); ++f) {
    const size_t c = columns_[f];
    // A column as it is, unless a length of the schema says otherwise of elements that are errors.
    if (all_fit && (*schema())[c] == (*block.schema())[c]) continue;
    columns[c] = cut_vectors(block, block.column(c), (*schema())[c], kept, markers_[f], pool);
  }
  return block.with_columns(schema(), std::move(columns));
}

}  // namespace millrace

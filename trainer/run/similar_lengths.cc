#include "millrace/trainer/run/similar_lengths.h"

#include <algorithm>
#include <utility>

#include "millrace/formats/error.h"

namespace millrace {

SimilarLengths::SimilarLengths(std::vector<TextFeatures> texts, int32_t pad_token, int64_t max_shapes)
    : texts_(std::move(texts)), pad_token_(pad_token) {
  if (texts_.empty() || std::ranges::any_of(texts_, [](const TextFeatures& text) { return text.limit < 1; })) {
    throw ErrorException(ErrorCode::kInvalidArgument, "SimilarLengths: texts of at least one token each are needed");
  }
  const auto divided_up = [](int64_t number, int64_t by) { return (number + by - 1) / by; };
  int64_t shapes = 0;
  for (int64_t longest_part = 32; shapes == 0 || shapes > std::max<int64_t>(1, max_shapes); longest_part += 32) {
    shapes = 1;
    multiples_.clear();
    for (const TextFeatures& text : texts_) {
      const int64_t parts = divided_up(text.limit, longest_part);
      multiples_.push_back(divided_up(text.limit, parts));
      shapes *= parts;
    }
  }
}

Dataset SimilarLengths::without_padding(const Dataset& rows) const {
  std::vector<FeatureSpec> cut;
  for (const TextFeatures& text : texts_) {
    cut.push_back({.name = text.ids, .dtype = DType::kInt32, .shape = {kVaries}});
    cut.push_back({.name = text.mask, .dtype = DType::kInt64, .shape = {kVaries}});
  }
  const auto cut_row = [texts = texts_](const RowView& row, RowWriter& out) {
    for (const TextFeatures& text : texts) {
      const int64_t length = std::ranges::count(row.values<int64_t>(text.mask), 1);
      const auto ids = row.values<int32_t>(text.ids).first(static_cast<size_t>(length));
      std::ranges::copy(ids, out.make<int32_t>(text.ids, {{length}}).begin());
      std::ranges::fill(out.make<int64_t>(text.mask, {{length}}), 1);
    }
  };
  return rows.map({.name = "without_padding", .writes = std::move(cut), .function = cut_row});
}

PaddedBatchOptions SimilarLengths::padding(const Dataset& rows) const {
  PaddedBatchOptions options;
  for (const FeatureSpec& feature : rows.schema().features()) {
    // Others have one size, which is no multiple of anything.
    if (!feature.shape.empty()) options.features[feature.name] = {.length = PadLength::longest()};
  }
  for (size_t i = 0; i < texts_.size(); ++i) {
    const PadLength length = PadLength::multiple_of(multiples_[i]);
    options.features[texts_[i].ids] = {.length = length, .value = int64_t{pad_token_}};
    options.features[texts_[i].mask] = {.length = length};
  }
  return options;
}

Dataset SimilarLengths::batches(const Dataset& rows, int64_t batch_size) const {
  std::vector<std::string> ids;
  size_t longest = 0;
  for (size_t i = 0; i < texts_.size(); ++i) {
    ids.push_back(texts_[i].ids);
    if (texts_[i].limit > texts_[longest].limit) longest = i;
  }
  std::vector<int64_t> boundaries;  // a row as long as the multiple is in the first bucket
  const int64_t step = multiples_[longest];
  for (int64_t length = step; length < texts_[longest].limit; length += step) boundaries.push_back(length + 1);
  const std::vector<int64_t> sizes(boundaries.size() + 1, batch_size);
  return rows.bucket_by_sequence_length(ids, boundaries, sizes, {.padding = padding(rows)});
}

Dataset SimilarLengths::batches_in_order(const Dataset& rows, int64_t batch_size) const {
  return rows.padded_batch(batch_size, padding(rows));
}

}  // namespace millrace

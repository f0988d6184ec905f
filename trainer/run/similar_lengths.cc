#include "millrace/trainer/run/similar_lengths.h"

#include <algorithm>
#include <utility>

namespace millrace {

SimilarLengths::SimilarLengths(std::vector<TextFeatures> texts, int32_t pad_token, int64_t max_shapes)
    : texts_(std::move(texts)), pad_token_(pad_token) {
  const auto num_shapes = [&] {
    int64_t shapes = 1;
    for (const TextFeatures& text : texts_) shapes *= (text.limit + multiple_ - 1) / multiple_;
    return shapes;
  };
  while (num_shapes() > std::max<int64_t>(1, max_shapes)) multiple_ += 32;
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
  for (const TextFeatures& text : texts_) {
    options.features[text.ids] = {.length = PadLength::multiple_of(multiple_), .value = int64_t{pad_token_}};
    options.features[text.mask] = {.length = PadLength::multiple_of(multiple_)};
  }
  return options;
}

Dataset SimilarLengths::batches(const Dataset& rows, int64_t batch_size) const {
  std::vector<std::string> ids;
  int64_t longest = 0;
  for (const TextFeatures& text : texts_) {
    ids.push_back(text.ids);
    longest = std::max(longest, text.limit);
  }
  std::vector<int64_t> boundaries;  // a row as long as the multiple is in the first bucket
  for (int64_t length = multiple_; length < longest; length += multiple_) boundaries.push_back(length + 1);
  const std::vector<int64_t> sizes(boundaries.size() + 1, batch_size);
  return rows.bucket_by_sequence_length(ids, boundaries, sizes, {.padding = padding(rows)});
}

Dataset SimilarLengths::batches_in_order(const Dataset& rows, int64_t batch_size) const {
  return rows.padded_batch(batch_size, padding(rows));
}

}  // namespace millrace

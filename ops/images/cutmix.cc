#include "millrace/ops/images/cutmix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/ops/images/batch_rows.h"
#include "millrace/ops/images/mixing_draws.h"

namespace millrace {
namespace {

// Pixels [begin, end) of one side of an image.
struct Range {
  int64_t begin;
  int64_t end;
  int64_t length() const { return end - begin; }
};

// A part of a side, `share` of its length before it is cut at the borders, around a uniform pixel.
Range drawn_range(const MixingDraws& draws, size_t index, int64_t side, double share) {
  if (side == 0) return {0, 0};
  const int64_t half = static_cast<int64_t>(share * static_cast<double>(side)) / 2;
  const int64_t middle = draws.below(static_cast<uint32_t>(side), index);
  return {std::max<int64_t>(0, middle - half), std::min(side, middle + half)};
}

}  // namespace

CutmixOperator::CutmixOperator(const SchemaPtr& input, CutmixOptions options, uint64_t occurrence)
    : MapOperator(input),
      options_(std::move(options)),
      image_(static_cast<size_t>(input->column(options_.image))),
      labels_(mixed_columns(*input, options_.labels, name())),
      occurrence_(occurrence) {
  check_mixing(options_.alpha, options_.probability, name());
  const FeatureSpec& image = (*input)[image_];
  if (image.dtype == DType::kBytes || image.shape.size() < 3 || image.is_ragged()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("cutmix: feature '{}' is {} {}, needs numbers [rows, height, width, ...]",
                                     image.name, to_string(image.dtype), to_string(image.shape)));
  }
  if (std::count(labels_.begin(), labels_.end(), image_) > 0) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("cutmix: '{}' is image and label", image.name));
  }
}

Block CutmixOperator::apply(Block block, BufferPool& pool) const {
  const CounterRng rng(options_.seed, operator_id(name(), occurrence_), block.iteration);
  std::vector<size_t> columns = labels_;
  columns.push_back(image_);
  expect_batches(block, columns, name());
  const Block::Columns original = block.columns();
  for (const size_t c : columns) block.mutable_columns()[c] = Column::like(pool, original[c].dtype(), original[c]);
  Column& images = block.mutable_columns()[image_];
  for (size_t element = 0; element < block.num_elements(); ++element) {
    if (!block.errors().empty() && block.error_at(element) != nullptr) continue;
    const size_t value = size_of(images.dtype());
    const size_t bytes = static_cast<size_t>(images.num_values(element)) * value;
    if (bytes > 0) std::memcpy(images.mutable_data(element), original[image_].data(element), bytes);
    const MixingDraws draws(rng, first_row_of(block, element));
    std::vector<size_t> partners;
    float lambda = 1;
    if (draws.applies(options_.probability) && bytes > 0) {
      const double side_share = std::sqrt(1 - draws.symmetric_beta(options_.alpha));
      const Range y = drawn_range(draws, 0, images.size(element, 1), side_share);
      const Range x = drawn_range(draws, 1, images.size(element, 2), side_share);
      const int64_t pixels = images.size(element, 1) * images.size(element, 2);
      partners = draws.permutation(static_cast<size_t>(block.rows_per_element));
      lambda = 1 - static_cast<float>(y.length() * x.length()) / static_cast<float>(pixels);
      const size_t image_bytes = bytes / partners.size();
      const size_t pixel_bytes = image_bytes / static_cast<size_t>(pixels);
      const size_t run = static_cast<size_t>(x.length()) * pixel_bytes;
      for (size_t row = 0; row < partners.size() && run > 0; ++row) {
        for (int64_t line = y.begin; line < y.end; ++line) {
          const size_t at = static_cast<size_t>(line * images.size(element, 2) + x.begin) * pixel_bytes;
          std::memcpy(images.mutable_data(element) + row * image_bytes + at,
                      original[image_].data(element) + partners[row] * image_bytes + at, run);
        }
      }
    }
    for (const size_t c : labels_) {
      mix_rows(original[c].values<float>(element), partners, lambda,
               block.mutable_columns()[c].mutable_values<float>(element));
    }
  }
  return block;
}

}  // namespace millrace

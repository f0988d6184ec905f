#include "millrace/ops/batch/bucket_by_sequence_length.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/ops/batch/pad_buffered_rows.h"

namespace millrace {
namespace {

constexpr std::string_view kName = "bucket_by_sequence_length";

[[noreturn]] void refuse(const std::string& message) {
  throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}: {}", kName, message));
}

// The length of each element: of several features the longest.
void measure(const Block& block, const std::vector<size_t>& columns, std::span<int64_t> lengths) {
  for (size_t i = 0; i < columns.size(); ++i) {
    const Column& column = block.column(columns[i]);
    for (size_t e = 0; e < lengths.size(); ++e) {
      const int64_t length = column.size(e, 0);
      lengths[e] = i == 0 ? length : std::max(lengths[e], length);
    }
  }
}

// The longest row of the bucket below a boundary; below 0 there is none.
int64_t upper_length(int64_t boundary) { return std::max<int64_t>(boundary - 1, 0); }

}  // namespace

BucketBySequenceLengthOperator::BucketBySequenceLengthOperator(SchemaPtr input, std::vector<std::string> features,
                                                               std::vector<int64_t> boundaries,
                                                               std::vector<int64_t> batch_sizes, BucketOptions options)
    : StageOperator(Padding(kName, input, options.padding).schema(kVaries)),
      input_schema_(std::move(input)),
      features_(std::move(features)),
      boundaries_(std::move(boundaries)),
      batch_sizes_(std::move(batch_sizes)),
      pad_to_boundary_(options.pad_to_bucket_boundary),
      padding_(kName, input_schema_, std::move(options.padding)) {
  if (features_.empty()) refuse("needs a feature to measure");
  for (const std::string& feature : features_) {
    const auto column = static_cast<size_t>(input_schema_->column(feature));
    if ((*input_schema_)[column].shape.empty())
      refuse(fmt::format("feature '{}' is a scalar, it has no length", feature));
    columns_.push_back(column);
  }
  for (size_t i = 0; i < boundaries_.size(); ++i) {
    if (boundaries_[i] > kMostPaddedLength) {
      refuse(fmt::format("boundaries must be at most {}, not {}", kMostPaddedLength, boundaries_[i]));
    }
    if (boundaries_[i] < 0 || (i > 0 && boundaries_[i] <= boundaries_[i - 1])) {
      refuse(fmt::format("boundaries must increase from 0 or more, not {}", fmt::join(boundaries_, ", ")));
    }
  }
  if (batch_sizes_.size() != boundaries_.size() + 1) {
    refuse(fmt::format("{} boundaries make {} buckets, and there are {} batch sizes", boundaries_.size(),
                       boundaries_.size() + 1, batch_sizes_.size()));
  }
  for (const int64_t size : batch_sizes_) {
    if (size < 1) refuse(fmt::format("batch sizes must be at least 1, not {}", size));
  }
  const PadLength& length = padding_.options().length;
  if (pad_to_boundary_ && (length.is_fixed() || length.multiple() != 1)) {
    refuse("pad_to_bucket_boundary and a length to pad to exclude each other");
  }
}

Cardinality BucketBySequenceLengthOperator::cardinality(std::span<const Cardinality> inputs) const {
  return inputs[0].is_infinite() ? inputs[0] : Cardinality::unknown();
}

// Batches of numbers are made straight from the rows that wait.
void BucketBySequenceLengthOperator::set_pad_buffered_rows(GroupStage::Rules& rules, BufferPool& pool) const {
  std::vector<PadBufferedRows> of_buckets;
  for (size_t b = 0; pad_to_boundary_ && b < boundaries_.size(); ++b) {
    of_buckets.emplace_back(*input_schema_, padding_.with_varying(upper_length(boundaries_[b]), "").rules());
  }
  if (!pad_to_boundary_) of_buckets.emplace_back(*input_schema_, padding_.rules());
  if (of_buckets.empty() || !of_buckets[0].knows_features()) return;
  rules.assemble_waiting = [this, of_buckets = std::move(of_buckets), &pool](std::span<BufferedRow> rows, int64_t key,
                                                                             Block::Columns& columns) {
    const auto bucket = static_cast<size_t>(pad_to_boundary_ ? key : 0);
    return bucket < of_buckets.size() && of_buckets[bucket](rows, pool, columns);
  };
}

std::unique_ptr<Stage> BucketBySequenceLengthOperator::open(std::vector<OpenStage> inputs,
                                                            const StageContext& context) const {
  GroupStage::Rules rules{.operator_name = kName};
  rules.keys = [this](Block& block, std::span<int64_t> keys) {
    measure(block, columns_, keys);
    for (int64_t& key : keys) {
      key = std::upper_bound(boundaries_.begin(), boundaries_.end(), key) - boundaries_.begin();
    }
  };
  rules.size = [this](int64_t key) { return batch_sizes_[static_cast<size_t>(key)]; };
  // What is too long for every bucket is an error also where its batch would be dropped, as tf.data has it.
  const auto too_long = pad_to_boundary_ ? static_cast<int64_t>(boundaries_.size()) : INT64_MAX;
  rules.drops_remainder = [drop = padding_.options().drop_remainder, too_long](int64_t key) {
    return drop && key < too_long;
  };
  if (!pad_to_boundary_) {
    rules.assemble = [assemble = padding_.assemble(schema(), context)](const Block& elements, size_t rows, int64_t) {
      return assemble(elements, rows);
    };
  } else {
    rules.assembles_alike = false;
    std::vector<BatchStage::Assemble> of_buckets;
    for (const int64_t boundary : boundaries_) {
      of_buckets.push_back(
          padding_
              .with_varying(upper_length(boundary), fmt::format(", the boundary {} of its bucket minus one", boundary))
              .assemble(schema(), context));
    }
    rules.assemble = [this, of_buckets = std::move(of_buckets), &pool = context.pool](const Block& elements,
                                                                                      size_t rows, int64_t key) {
      if (static_cast<size_t>(key) < of_buckets.size()) return of_buckets[static_cast<size_t>(key)](elements, rows);
      // As tf.data has it: what is too long for every bucket is an error when its batch is made.
      std::vector<int64_t> lengths(elements.num_elements());
      measure(elements, columns_, lengths);
      BlockBuilder failed(schema(), pool);
      for (size_t first = 0; first < elements.num_elements(); first += rows) {
        Error error{
            .code = ErrorCode::kWrongShape,
            .message = fmt::format("{}: a row has length {}; with pad_to_bucket_boundary it must be below the "
                                   "last boundary, {}",
                                   kName, lengths[first],
                                   boundaries_.empty() ? "and there is none" : fmt::to_string(boundaries_.back()))};
        elements.locate(first, error);
        failed.append_error(std::make_shared<const Error>(std::move(error)));
      }
      return failed.finish();
    };
  }
  set_pad_buffered_rows(rules, context.pool);
  return std::make_unique<GroupStage>(input_schema_, schema(), open_input(inputs[0], context), std::move(rules),
                                      context);
}

}  // namespace millrace

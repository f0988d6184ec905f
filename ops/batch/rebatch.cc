#include "millrace/ops/batch/rebatch.h"

#include <fmt/format.h>

#include "millrace/ops/batch/unbatch.h"

namespace millrace {
namespace {

// The rows of every batch, where they are known: elements of so many rows that none is cut have no rest.
int64_t rows_of_batches(const Schema& input, int64_t size, bool drop_remainder) {
  if (drop_remainder) return size;
  int64_t rows = kVaries;
  for (const FeatureSpec& feature : input.features()) {
    if (feature.shape[0] < 0) continue;
    if (rows != kVaries && feature.shape[0] != rows) return kVaries;
    rows = feature.shape[0];
  }
  return rows > 0 && rows % size == 0 ? size : kVaries;
}

SchemaPtr rebatched_schema(const Schema& input, int64_t size, bool drop_remainder) {
  (void)unbatched_schema("rebatch", input);  // refuses scalars
  const int64_t rows = rows_of_batches(input, checked_batch_size("rebatch", size), drop_remainder);
  std::vector<FeatureSpec> features = input.features();
  for (FeatureSpec& feature : features) feature.shape[0] = rows;
  return std::make_shared<const Schema>(std::move(features));
}

}  // namespace

RebatchOperator::RebatchOperator(const SchemaPtr& input, int64_t size, BatchOptions options)
    : StageOperator(rebatched_schema(*input, size, options.drop_remainder)),
      row_schema_(unbatched_schema("rebatch", *input)),
      size_(checked_batch_size("rebatch", size)),
      options_(options) {}

std::unique_ptr<Stage> RebatchOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  const OpenStage rows = [this, &inputs](const StageContext& row_context) {
    return open_unbatch(row_schema_, inputs[0], row_context);
  };
  return std::make_unique<BatchStage>(row_schema_, schema(), open_input(rows, context), size_, options_.drop_remainder,
                                      stack_elements(schema(), name(), context.pool), context);
}

}  // namespace millrace

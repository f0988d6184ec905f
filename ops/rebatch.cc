#include "ops/rebatch.h"

#include <fmt/format.h>

#include "ops/unbatch.h"

namespace millrace {
namespace {

SchemaPtr rebatched_schema(const Schema& input, int64_t rows) {
  (void)unbatched_schema("rebatch", input);  // refuses scalars
  std::vector<FeatureSpec> features = input.features();
  for (FeatureSpec& feature : features) feature.shape[0] = rows;
  return std::make_shared<const Schema>(std::move(features));
}

}  // namespace

RebatchOperator::RebatchOperator(const SchemaPtr& input, int64_t size, BatchOptions options)
    : StageOperator(rebatched_schema(*input, options.drop_remainder ? size : kVaries)),
      row_schema_(unbatched_schema("rebatch", *input)),
      size_(checked_batch_size("rebatch", size)),
      options_(options) {}

std::string RebatchOperator::arguments() const {
  return fmt::format("size={}, drop_remainder={}", size_, options_.drop_remainder);
}

std::unique_ptr<Stage> RebatchOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  const OpenStage rows = [this, &inputs](const StageContext& row_context) {
    return open_unbatch(row_schema_, inputs[0], row_context);
  };
  return std::make_unique<BatchStage>(row_schema_, schema(), open_input(rows, context), size_, options_.drop_remainder,
                                      stack_elements(schema(), name(), context.pool), context);
}

}  // namespace millrace

#include "millrace/ops/images/mixup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/ops/images/batch_rows.h"
#include "millrace/ops/images/mixing_draws.h"

namespace millrace {

MixupOperator::MixupOperator(const SchemaPtr& input, MixupOptions options, uint64_t occurrence)
    : MapOperator(input),
      options_(std::move(options)),
      columns_(mixed_columns(*input, options_.features, name())),
      occurrence_(occurrence) {
  check_mixing(options_.alpha, options_.probability, name());
  if (columns_.empty()) throw ErrorException(ErrorCode::kInvalidArgument, "mixup: name the features");
}

Block MixupOperator::apply(Block block, BufferPool& pool) const {
  const CounterRng rng(options_.seed, operator_id(name(), occurrence_), block.iteration);
  expect_batches(block, columns_, name());
  const Block::Columns original = block.columns();
  for (const size_t c : columns_) block.mutable_columns()[c] = Column::like(pool, DType::kFloat32, original[c]);
  for (size_t element = 0; element < block.num_elements(); ++element) {
    if (!block.errors().empty() && block.error_at(element) != nullptr) continue;
    const MixingDraws draws(rng, first_row_of(block, element));
    const bool applies = draws.applies(options_.probability);
    const auto lambda = static_cast<float>(applies ? draws.symmetric_beta(options_.alpha) : 1);
    const std::vector<size_t> partners =
        applies ? draws.permutation(static_cast<size_t>(block.rows_per_element)) : std::vector<size_t>();
    for (const size_t c : columns_) {
      mix_rows(original[c].values<float>(element), partners, lambda,
               block.mutable_columns()[c].mutable_values<float>(element));
    }
  }
  return block;
}

}  // namespace millrace
